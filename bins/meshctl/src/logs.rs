//! What a module says, as it says it.

mod shown;

use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use mesh_api::{CallError, LogQuery, LogReader, LogRecord};
use tokio::sync::{mpsc, oneshot};

use crate::cli::{Cli, Logs, Output};
use crate::{exit, out};
use shown::Shown;

/// Prints the lines of a module's log. What is not a line of it is said beside.
pub(crate) async fn logs(cli: &Cli, asked: &Logs) -> anyhow::Result<ExitCode> {
    let query = LogQuery {
        node: asked.node.clone(),
        tail: asked.tail,
        follow: asked.follow,
    };
    let client = cli.client();
    let interrupted = mesh_host::stop_signal()?;
    tokio::pin!(interrupted);
    let opening = client.logs(&asked.module, &query);
    let mut reader = tokio::select! {
        opened = opening => opened?,
        () = &mut interrupted => return Ok(ExitCode::from(INTERRUPTED)),
    };
    tokio::select! {
        ended = print(cli, &mut reader) => ended,
        () = interrupted => Ok(ExitCode::from(INTERRUPTED)),
    }
}

async fn print(cli: &Cli, reader: &mut LogReader) -> anyhow::Result<ExitCode> {
    let mut shown = Shown::new(std::io::stdout().is_terminal());
    let json = cli.output == Output::Json;
    let (written, done) = writer();
    let mut first_error = None;
    while let Some(record) = reader.next().await? {
        let line = match &record {
            record if json => {
                let mut line = serde_json::to_vec(record)?;
                line.push(b'\n');
                Some(line)
            }
            LogRecord::Line { node, bytes, cut } => Some(shown.line(node, bytes, *cut)),
            _ => None,
        };
        if let Some(line) = line
            && written.send(line).await.is_err()
        {
            // Whoever read has read enough.
            return Ok(ExitCode::SUCCESS);
        }
        match record {
            LogRecord::Nodes { nodes } => shown.of(nodes.len()),
            LogRecord::Dropped { node, lines } => out::note(&format!(
                "meshctl: {lines} lines of node {node} were left out here: they were not read fast enough"
            )),
            LogRecord::Lost { node } => out::note(&format!(
                "meshctl: some lines of node {node} were lost here on their way"
            )),
            LogRecord::Line { .. } | LogRecord::Ended { error: None, .. } => {}
            LogRecord::Ended {
                error: Some(error), ..
            } => {
                out::note(&format!("meshctl: {error}"));
                first_error.get_or_insert(error);
            }
        }
    }
    drop(written);
    // What was read is shown before this ends.
    let _ended = done.await;
    Ok(match first_error {
        Some(error) => ExitCode::from(exit::code(&CallError::Refused(error).into())),
        None => ExitCode::SUCCESS,
    })
}

/// Writes to standard output in a thread of its own: whoever reads there may stop for long, and an interruption must be
/// heard all the same. Little waits for it, so that what is written meanwhile waits where it can be left out.
fn writer() -> (mpsc::Sender<Vec<u8>>, oneshot::Receiver<()>) {
    let (written, mut lines) = mpsc::channel::<Vec<u8>>(LINES_AHEAD);
    let (ended, done) = oneshot::channel();
    std::thread::spawn(move || {
        let mut stdout = std::io::stdout().lock();
        while let Some(line) = lines.blocking_recv() {
            let result = stdout.write_all(&line).and_then(|()| stdout.flush());
            if let Err(error) = result {
                if error.kind() != std::io::ErrorKind::BrokenPipe {
                    out::note(&format!("standard output: {error}"));
                }
                break;
            }
        }
        drop(lines);
        // Nobody may wait for it.
        let _unheard = ended.send(());
    });
    (written, done)
}

const LINES_AHEAD: usize = 64;
/// How a shell tells that somebody interrupted it.
const INTERRUPTED: u8 = 130;
