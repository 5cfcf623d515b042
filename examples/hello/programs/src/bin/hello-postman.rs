//! Delivers letters while it holds the seat `post`; those written before it did, too.

use std::pin::pin;

use hello::Notebook;
use mesh_module::Module;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    hello::log();
    let mut notebook = Notebook::open("postman.log")?;
    let module = Module::connect_from_env().await?;
    module.announce(env!("CARGO_PKG_VERSION")).await?;

    let mut stop = pin!(hello::stop_signal()?);
    let mut post = module.work("post").await?;
    loop {
        let letter = tokio::select! {
            () = &mut stop => return Ok(()),
            letter = post.next() => letter,
        };
        let text = String::from_utf8_lossy(&letter.body);
        tracing::info!(from = %letter.sender, %text, "delivered");
        notebook.note(&letter.id, &text)?;
        letter.done().await?;
    }
}
