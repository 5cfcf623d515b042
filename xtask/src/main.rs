//! The project's own tasks: `cargo xtask <TASK>`.

mod bench;
mod cargo;
mod cases;
mod clock;
mod demo;
mod out;
mod setup;
mod sim;
mod tally;
mod test;
mod test_live;
mod tidy;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// The project's own tasks.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Install what the tests and the demo need: into the project's own folder `.mesh`, and RabbitMQ and container engines with apt-get
    Setup(setup::Options),
    /// Run the whole mesh on this machine, from nothing, and clear it away again
    Demo(demo::Options),
    /// Check what the documents claim: layers, links, rule ids, golden files and the like
    Tidy,
    /// Run every check and every test, and close with `N passed, N failed`
    Test(test::Options),
    /// Run the tests that need a server, against one that is really there
    TestLive(test_live::Options),
    /// Run both ends of the conversation through seeded faults
    Sim(sim::Options),
    /// Run files of cases against how the library says the servers judge
    Cases(cases::Options),
    /// Measure, each row against a ceiling measured in the same run
    Bench(bench::Options),
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().task {
        Task::Setup(options) => setup::run(&options),
        Task::Demo(options) => demo::run(&options),
        Task::Tidy => tidy::run(),
        Task::Test(options) => test::run(&options),
        Task::TestLive(options) => test_live::run(&options),
        Task::Sim(options) => sim::run(&options),
        Task::Cases(options) => Ok(cases::run(&options)),
        Task::Bench(options) => bench::run(&options),
    };
    outcome.unwrap_or_else(|error| {
        out::step("error", format_args!("{error:#}"));
        ExitCode::FAILURE
    })
}
