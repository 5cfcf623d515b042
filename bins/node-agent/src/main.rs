//! The mesh's agent on a host.

mod cli;
mod out;
mod run;
mod show;

use std::process::ExitCode;

use clap::Parser;

use cli::{Cli, Verb};

fn main() -> ExitCode {
    mesh_host::install_tls();
    let cli = Cli::parse();
    mesh_host::log_to_stderr(cli.log_format, cli.verbosity());
    let result = match cli.verb.unwrap_or(Verb::Run) {
        Verb::Run => run::run(&cli),
        Verb::Status => show::status(&cli),
        Verb::Config(verb) => show::config(&cli, verb),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => out::failed(&error),
    }
}
