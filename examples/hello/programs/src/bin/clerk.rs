//! The module that `docs/modules.md` writes, word for word: it notes greetings, and works the seat `post` when it holds it.
#![expect(
    clippy::print_stdout,
    reason = "what a module prints is its log, and the page says so"
)]

use mesh_module::Module;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let clerk = Module::connect_from_env().await?;
    clerk.announce("0.1.0").await?;

    let mut greetings = clerk.follow().await?;
    let mut post = clerk.work("post").await?;
    loop {
        tokio::select! {
            greeting = greetings.next() => {
                println!("{} says {}", greeting.module, String::from_utf8_lossy(&greeting.body));
                clerk.emit("noted", greeting.id.clone()).await?;
                greeting.done().await?;
            }
            letter = post.next() => {
                println!("a letter from {}", letter.sender);
                letter.done().await?;
            }
        }
    }
}
