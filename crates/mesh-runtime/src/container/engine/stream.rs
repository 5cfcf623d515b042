//! What comes out of containers: their logs as lines, and what a command in one says.

use bollard::errors::Error;
use bollard::exec::{StartExecOptions, StartExecResults};
use bollard::query_parameters::LogsOptions;
use bollard::{BollardRequest, Docker};
use futures_util::StreamExt;

use super::Engine;
use crate::container::fault::Fault;
use crate::{Logs, Tail};

/// Bytes of what a command said that are kept: its last words are what is wrong.
const SAID: usize = 200;

impl Engine {
    /// The log of a container as its engine keeps it.
    pub(crate) async fn logs(&self, id: &str, tail: Tail) -> Result<Logs, Fault> {
        let docker = self.client().await?;
        let options = LogsOptions {
            follow: tail.follow,
            stdout: true,
            stderr: true,
            tail: tail.lines.to_string(),
            ..LogsOptions::default()
        };
        let id = id.to_owned();
        Ok(Logs::of(move |mut lines| async move {
            let mut parts = std::pin::pin!(docker.logs(&id, Some(options)));
            loop {
                let part = tokio::select! {
                    () = lines.unheard() => return,
                    part = parts.next() => part,
                };
                match part {
                    Some(Ok(part)) if lines.push(part.as_ref()).await => {}
                    Some(Err(error)) => {
                        let why = format!("the log cannot be read further: {error}");
                        lines.finish().await;
                        lines.push(why.as_bytes()).await;
                        break;
                    }
                    _ => break,
                }
            }
            lines.finish().await;
        }))
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
