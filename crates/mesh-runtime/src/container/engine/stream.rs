//! What comes out of containers: their logs as lines, and what a command in one says.

use bollard::errors::Error;
use bollard::exec::{StartExecOptions, StartExecResults};
use bollard::query_parameters::LogsOptions;
use bollard::{BollardRequest, Docker};
use futures_util::StreamExt;

use super::Engine;
use crate::Logs;
use crate::container::fault::{Asked, Fault};
use crate::container::mark::{Mark, stamped};
use crate::logs::Lines;

/// Bytes of what a command said that are kept: its last words are what is wrong.
const SAID: usize = 200;

impl Engine {
    /// The last lines of a container's log, as its engine keeps it now.
    pub(crate) async fn logs(&self, id: &str, last: usize) -> Result<Logs, Fault> {
        let docker = self.client().await?;
        let options = LogsOptions {
            stdout: true,
            stderr: true,
            tail: last.to_string(),
            ..LogsOptions::default()
        };
        let id = id.to_owned();
        Ok(Logs::of(move |mut lines| async move {
            let mut parts = std::pin::pin!(docker.logs(&id, Some(options)));
            while let Some(part) = parts.next().await {
                match part {
                    Ok(part) if lines.push(part.as_ref()).await => {}
                    Ok(_) => return,
                    Err(error) => return lines.broken(error.to_string()).await,
                }
            }
            lines.finish().await;
        }))
    }

    /// Says what of a container's log comes after `mark`, of what was said before this at most so many lines where it is
    /// told, and moves the mark. Returns at the log's end; of what runs and is followed, when that ends.
    pub(crate) async fn log_after(
        &self,
        id: &str,
        mark: &mut Mark,
        last: Option<usize>,
        follow: bool,
        lines: &mut Lines,
    ) -> Result<(), Fault> {
        let docker = self.client().await?;
        let options = LogsOptions {
            follow,
            stdout: true,
            stderr: true,
            timestamps: true,
            since: mark.since(),
            tail: last.map_or_else(|| "all".to_owned(), |last| last.to_string()),
            ..LogsOptions::default()
        };
        let mut heard = mark.clone().again();
        let mut parts = std::pin::pin!(docker.logs(id, Some(options)));
        while let Some(part) = parts.next().await {
            let part = part.map_err(|error| self.fault(Asked::Other("for a log"), error))?;
            let (at, bytes) = stamped(part.as_ref());
            if at.is_some_and(|at| heard.had(at)) {
                continue;
            }
            if let Some(at) = at {
                mark.note(at);
            }
            lines.push(bytes).await;
        }
        lines.finish().await;
        Ok(())
    }
}

/// Runs a command that was made, to its end; the last line it said.
pub(super) async fn said(docker: &Docker, exec: &str) -> Result<String, Error> {
    let attached = StartExecOptions {
        detach: false,
        tty: false,
        output_capacity: None,
    };
    let StartExecResults::Attached { mut output, .. } =
        docker.start_exec(exec, Some(attached)).await?
    else {
        return Ok(String::new());
    };
    let mut kept = Vec::new();
    while let Some(part) = output.next().await {
        kept.extend_from_slice(part?.as_ref());
        let spare = kept.len().saturating_sub(SAID);
        kept.drain(..spare);
    }
    let text = String::from_utf8_lossy(&kept);
    let last = text.lines().rfind(|line| !line.trim().is_empty());
    Ok(last.unwrap_or_default().trim().to_owned())
}

/// The header that carries a registry's password, in the alphabet engines read: any other they take for none at all.
pub(super) fn url_safe(mut request: BollardRequest) -> BollardRequest {
    if let Some(value) = request.headers_mut().get_mut("x-registry-auth") {
        let text = value
            .to_str()
            .map(|text| text.replace('+', "-").replace('/', "_"));
        if let Some(mut safe) = text.ok().and_then(|text| text.parse().ok()) {
            std::mem::swap(value, &mut safe);
            value.set_sensitive(true);
        }
    }
    request
}
