//! Greets once a second, and writes the first letters to whoever will hold the seat `post`.

use std::pin::pin;
use std::time::Duration;

use mesh_module::Module;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    hello::log();
    let module = Module::connect_from_env().await?;
    module.announce(env!("CARGO_PKG_VERSION")).await?;

    let mut stop = pin!(hello::stop_signal()?);
    let mut second = tokio::time::interval(Duration::from_secs(1));
    for count in 1_u64.. {
        tokio::select! {
            () = &mut stop => break,
            _ = second.tick() => {}
        }
        tokio::select! {
            () = &mut stop => break,
            said = greet(&module, count) => match said {
                Ok(()) => tracing::info!(count, "greeted"),
                // The bus is away, or slow: the next greeting may get through.
                Err(error) => tracing::warn!(count, error = format!("{error:#}"), "not greeted"),
            }
        }
    }
    Ok(())
}

async fn greet(module: &Module, count: u64) -> anyhow::Result<()> {
    if count <= LETTERS {
        module
            .send("post", format!("letter number {count}"))
            .await?;
    }
    module
        .emit("greeted", format!("hello number {count}"))
        .await?;
    Ok(())
}

const LETTERS: u64 = 5;
