//! A module that keeps books for a test: what it was confirmed, or what it heard, one line each, on disk before it goes on.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::PathBuf;
use std::pin::pin;
use std::time::Duration;

use anyhow::{Context, bail};
use mesh_module::Module;
use tokio::signal::unix::{SignalKind, signal};

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut stop = pin!(async move {
        let _ended = terminate.recv().await;
    });
    let role = std::env::args().nth(1).context("ledger ROLE")?;
    let module = Module::connect_from_env().await?;
    let node = module.instance().node.to_string();
    let mut book = Book::open(&format!("{role}-{node}.log"))?;
    match role.as_str() {
        "source" => source(&module, &node, &mut book, stop).await,
        "sink" => {
            let mut heard = module.follow().await?;
            loop {
                let event = tokio::select! {
                    () = &mut stop => return Ok(()),
                    event = heard.next() => event,
                };
                book.note(&event.id, &event.body)?;
                event.done().await?;
            }
        }
        "clerk" => {
            let mut heard = module.work("desk").await?;
            loop {
                let work = tokio::select! {
                    () = &mut stop => return Ok(()),
                    work = heard.next() => work,
                };
                book.note(&work.id, &work.body)?;
                work.done().await?;
            }
        }
        other => bail!("{other:?} is no role: source, sink or clerk"),
    }
}

/// Says one event and one piece of work after another, each under a number nobody uses again, and writes down what was
/// confirmed. What was not is not said again: whether it arrives is not known.
async fn source(
    module: &Module,
    node: &str,
    book: &mut Book,
    mut stop: impl Future<Output = ()> + Unpin,
) -> anyhow::Result<()> {
    let run = std::process::id();
    let mut pause = tokio::time::interval(Duration::from_millis(100));
    for number in 0_u64.. {
        tokio::select! {
            () = &mut stop => break,
            _ = pause.tick() => {}
        }
        let event = format!("{node}-{run}-e{number}");
        if module.emit("tick", event.clone()).await.is_ok() {
            book.note("event", event.as_bytes())?;
        }
        let work = format!("{node}-{run}-w{number}");
        if module.send("desk", work.clone()).await.is_ok() {
            book.note("work", work.as_bytes())?;
        }
    }
    Ok(())
}

struct Book(File);

impl Book {
    fn open(name: &str) -> anyhow::Result<Self> {
        let dir = std::env::var_os("LEDGER_OUT").context("LEDGER_OUT")?;
        let path = PathBuf::from(dir).join(name);
        let mut options = OpenOptions::new();
        let file = options.create(true).append(true).open(&path);
        Ok(Self(file.with_context(|| path.display().to_string())?))
    }

    fn note(&mut self, id: &str, body: &[u8]) -> anyhow::Result<()> {
        let line = format!("{id} {}\n", String::from_utf8_lossy(body));
        Ok(self.0.write_all(line.as_bytes())?)
    }
}
