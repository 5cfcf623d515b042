//! Notes down every greeting.

use std::pin::pin;

use hello::Notebook;
use mesh_module::Module;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    hello::log();
    let mut notebook = Notebook::open("listener.log")?;
    let module = Module::connect_from_env().await?;
    module.announce(env!("CARGO_PKG_VERSION")).await?;

    let mut stop = pin!(hello::stop_signal()?);
    let mut greetings = module.follow().await?;
    loop {
        let greeting = tokio::select! {
            () = &mut stop => return Ok(()),
            greeting = greetings.next() => greeting,
        };
        let text = String::from_utf8_lossy(&greeting.body);
        tracing::info!(from = %greeting.module, %text, "heard");
        notebook.note(&greeting.id, &text)?;
        greeting.done().await?;
    }
}
