//! Makes this host a node of a mesh.

mod cli;
mod exit;
mod home;
mod out;
mod run;
mod unit;

use std::process::ExitCode;

use clap::Parser;

use cli::Cli;

fn main() -> ExitCode {
    mesh_host::install_tls();
    let cli = Cli::parse();
    mesh_host::log_to_stderr(cli.log_format, cli.verbosity());
    match run::run(&cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => out::failed(&failure),
    }
}
