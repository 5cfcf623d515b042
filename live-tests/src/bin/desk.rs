//! Both ends of a seat, for a test that keeps books: `desk send N` sends so many pieces of work, `desk hold` works them.
//!
//! Each writes lines `<what> <work> <milliseconds>`, on disk before it goes on: `sent` when the bus has it; `begun` when
//! it is taken up, `done` when the bus has confirmed that the one who held the seat is done with it.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, bail};
use mesh_module::Module;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;

/// What a piece of work takes, so that there is some left when the last of them changes hands.
const TAKES: Duration = Duration::from_millis(2);
/// Pieces of work on their way at once.
const AT_ONCE: usize = 16;

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut stop = pin!(async move {
        let _ended = terminate.recv().await;
    });
    let mut arguments = std::env::args().skip(1);
    let role = arguments.next().context("desk ROLE")?;
    let module = Module::connect_from_env().await?;
    let book = Book::open(&format!("{}.log", module.instance().module))?;
    match role.as_str() {
        "send" => {
            let count = arguments.next().context("desk send N")?.parse()?;
            tokio::select! {
                () = &mut stop => return Ok(()),
                sent = send(module, Arc::new(book), count) => sent?,
            }
            // It is not started again as long as it runs.
            stop.await;
            Ok(())
        }
        "hold" => {
            let mut desk = module.work("desk").await?;
            loop {
                let work = tokio::select! {
                    () = &mut stop => return Ok(()),
                    work = desk.next() => work,
                };
                let what = String::from_utf8_lossy(&work.body).into_owned();
                book.note("begun", &what)?;
                tokio::time::sleep(TAKES).await;
                match work.done().await {
                    Ok(()) => book.note("done", &what)?,
                    Err(error) => book.note(&format!("not-done:{}", one_word(&error)), &what)?,
                }
            }
        }
        other => bail!("{other:?} is no role: send or hold"),
    }
}

/// Sends each piece until the bus has it: a module started again sends those that are not in its book.
async fn send(module: Module, book: Arc<Book>, count: usize) -> anyhow::Result<()> {
    let module = Arc::new(module);
    let mut on_their_way = JoinSet::new();
    for number in 0..count {
        if on_their_way.len() >= AT_ONCE {
            on_their_way
                .join_next()
                .await
                .context("one is on its way")???;
        }
        let (module, book) = (Arc::clone(&module), Arc::clone(&book));
        on_their_way.spawn(async move {
            let what = format!("w{number}");
            // A full queue, or a bus that is away: the same piece once more, which whoever works it can tell.
            while let Err(error) = module.send("desk", what.clone()).await {
                tokio::time::sleep(Duration::from_millis(200)).await;
                book.note(&format!("not-sent:{}", one_word(&error)), &what)?;
            }
            book.note("sent", &what)
        });
    }
    while let Some(sent) = on_their_way.join_next().await {
        sent??;
    }
    Ok(())
}

fn one_word(error: &dyn std::fmt::Display) -> String {
    error.to_string().replace(char::is_whitespace, "_")
}

#[derive(Debug)]
struct Book(Mutex<File>);

impl Book {
    fn open(name: &str) -> anyhow::Result<Self> {
        let dir = std::env::var_os("DESK_OUT").context("DESK_OUT")?;
        let path = PathBuf::from(dir).join(name);
        let mut options = OpenOptions::new();
        let file = options.create(true).append(true).open(&path);
        let file = file.with_context(|| path.display().to_string())?;
        Ok(Self(Mutex::new(file)))
    }

    fn note(&self, what: &str, work: &str) -> anyhow::Result<()> {
        let at = mesh_host::now().as_millis();
        let line = format!("{what} {work} {at}\n");
        let mut file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(file.write_all(line.as_bytes())?)
    }
}
