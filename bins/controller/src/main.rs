//! The mesh's controller.

mod amqp;
mod backup;
mod buses;
mod cli;
mod config;
mod keys;
mod ledger;
mod loopback;
mod managed;
mod mint;
mod out;
mod run;
mod served;
mod state;
mod surface;

use std::process::ExitCode;

use clap::Parser;

use cli::{Cli, Verb};

fn main() -> ExitCode {
    mesh_host::install_tls();
    let cli = Cli::parse();
    mesh_host::log_to_stderr(cli.log_format, cli.verbosity());
    let result = match cli.verb.clone().unwrap_or(Verb::Run) {
        Verb::Run => run::run(&cli),
        Verb::Backup { to } => backup::backup(&cli, &to),
        Verb::Restore { from } => backup::restore(&cli, &from),
        Verb::Config(verb) => config::show(&cli, verb),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => out::failed(&error),
    }
}
