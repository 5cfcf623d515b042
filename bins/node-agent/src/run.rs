//! The agent as a service: until a signal says to stop.

use anyhow::Context;
use mesh_agent::AgentConfig;

use crate::cli::Cli;

/// Runs until SIGTERM or SIGINT. What it started goes on running.
pub(crate) fn run(cli: &Cli) -> anyhow::Result<()> {
    let config = AgentConfig::read(&cli.config())?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(WORKERS)
        .enable_all()
        .build()
        .context("the threads of the agent cannot be started")?;
    runtime.block_on(async {
        let stop = mesh_host::stop_signal().context("the signals to stop cannot be caught")?;
        Ok(mesh_agent::run(config, stop).await?)
    })
}

/// An agent waits nearly all of its time; one thread waits for the bus while another watches processes.
const WORKERS: usize = 2;
