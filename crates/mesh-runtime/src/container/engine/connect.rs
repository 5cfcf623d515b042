//! Finding the engine, and agreeing with it on what is spoken.

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use bollard::errors::Error;
use bollard::query_parameters::InspectNetworkOptions;
use bollard::{API_DEFAULT_VERSION, Docker};
use tokio::time::timeout;

use super::{Engine, stream};
use crate::container::fault::{Asked, Fault};
use crate::container::spec::Abilities;

impl Engine {
    /// A connection whose version of the API both sides speak.
    pub(crate) async fn client(&self) -> Result<Docker, Fault> {
        let known = |client: &Mutex<Option<Docker>>| {
            client
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .clone()
        };
        if let Some(docker) = known(&self.client) {
            return Ok(docker);
        }
        let socket = self.chosen.socket()?;
        let docker = self.connect(&socket).await?;
        self.chosen.keep(&socket);
        *self.client.lock().unwrap_or_else(PoisonError::into_inner) = Some(docker.clone());
        Ok(docker)
    }

    async fn connect(&self, socket: &Path) -> Result<Docker, Fault> {
        let what = "which version it speaks";
        let path = socket.to_string_lossy();
        // Its own limit is for whole seconds and for all calls alike; ours come first.
        let longest = self.deadline.as_secs().saturating_add(3600);
        let docker = Docker::connect_with_unix(&path, longest, API_DEFAULT_VERSION)
            .map_err(|error| Fault::Away(format!("{}: {error}", socket.display())))?
            .with_request_modifier(stream::url_safe);
        let known = async {
            let docker = docker.negotiate_version().await?;
            let host = host_address(&docker).await?;
            Ok((docker, host))
        };
        match timeout(self.deadline, known).await {
            Ok(Ok((docker, host))) => {
                tracing::info!(socket = %socket.display(), api = %docker.client_version(), host, "container engine");
                self.abilities
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .host = host.or_else(|| Abilities::default().host);
                Ok(docker)
            }
            Ok(Err(error)) => Err(self.fault(Asked::Other(what), error)),
            Err(_) => Err(Fault::Unresponsive {
                what,
                after: self.deadline,
            }),
        }
    }
}

/// At which address containers of the network they are usually in reach the host, where the engine has no word for that:
/// Podman takes Docker's for a name.
async fn host_address(docker: &Docker) -> Result<Option<String>, Error> {
    let parts = docker.version().await?.components.unwrap_or_default();
    if !parts.iter().any(|part| part.name.contains("Podman")) {
        return Ok(None);
    }
    let network = docker
        .inspect_network("podman", None::<InspectNetworkOptions>)
        .await;
    let ipam = network.ok().and_then(|network| network.ipam?.config);
    Ok(ipam
        .unwrap_or_default()
        .into_iter()
        .find_map(|subnet| subnet.gateway))
}
