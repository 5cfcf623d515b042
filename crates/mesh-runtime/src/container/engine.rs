//! A container engine over its socket: every call with a deadline, every answer as a value of ours.

mod connect;
mod image;
mod seen;
mod stream;

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bollard::Docker;
use bollard::errors::Error;
use bollard::models::{ContainerCreateBody, ExecConfig};
use bollard::query_parameters::{
    CreateContainerOptions, InspectContainerOptions, ListContainersOptions, RemoveContainerOptions,
    RemoveVolumeOptions, RenameContainerOptions, StartContainerOptions, StopContainerOptions,
};
use futures_util::StreamExt;
use tokio::time::timeout;

use super::choice::Chosen;
use super::fault::{Asked, Fault, classify};
use super::label;
use super::spec::Abilities;

pub(crate) use image::{Held, PullBroken};
pub(crate) use seen::{Exit, Seen, State};

/// A container engine. A connection is made when it is needed, and again when it broke.
#[derive(Debug)]
pub(crate) struct Engine {
    chosen: Chosen,
    deadline: Duration,
    /// Nothing while there is no connection whose version of the API is known.
    client: Mutex<Option<Docker>>,
    abilities: Mutex<Abilities>,
}

impl Engine {
    pub(crate) fn new(chosen: Chosen, deadline: Duration) -> Self {
        Self {
            chosen,
            deadline,
            client: Mutex::default(),
            abilities: Mutex::default(),
        }
    }

    /// What a container may ask of it.
    pub(crate) fn abilities(&self) -> Abilities {
        self.abilities
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Whether a container that was refused with these words may be asked for again, with less.
    pub(crate) fn learn(&self, refusal: &str) -> bool {
        let mut abilities = self
            .abilities
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let Some(less) = abilities.without(refusal) else {
            return false;
        };
        *abilities = less;
        true
    }

    /// The containers of one module, or of all of an agent, whatever they do.
    pub(crate) async fn list(&self, owner: &str, module: Option<&str>) -> Result<Vec<Seen>, Fault> {
        let mut labels = vec![format!("{}={owner}", label::OWNER)];
        labels.extend(module.map(|module| format!("{}={module}", label::MODULE)));
        let options = ListContainersOptions {
            all: true,
            filters: Some([("label".to_owned(), labels)].into()),
            ..ListContainersOptions::default()
        };
        let summaries = self
            .call("the list of containers", |docker| async move {
                docker.list_containers(Some(options)).await
            })
            .await?;
        let mut all = vec![];
        for id in summaries.into_iter().filter_map(|summary| summary.id) {
            // One that went meanwhile is not there.
            all.extend(self.inspect(&id).await?);
        }
        // What an engine filters by is its business; what is touched is ours.
        all.retain(|seen| seen.owner.as_deref() == Some(owner));
        all.sort_by(|a, b| (&a.created, &a.name).cmp(&(&b.created, &b.name)));
        Ok(all)
    }

    /// One container, by id or by name; nothing when there is none.
    pub(crate) async fn inspect(&self, id: &str) -> Result<Option<Seen>, Fault> {
        let id = id.to_owned();
        let answer = self
            .call("the state of a container", |docker| async move {
                docker
                    .inspect_container(&id, None::<InspectContainerOptions>)
                    .await
            })
            .await;
        match answer {
            Ok(container) => Ok(Seen::of(container)),
            Err(Fault::Missing) => Ok(None),
            Err(fault) => Err(fault),
        }
    }

    pub(crate) async fn create(
        &self,
        name: &str,
        body: ContainerCreateBody,
    ) -> Result<String, Fault> {
        let options = CreateContainerOptions {
            name: Some(name.to_owned()),
            ..CreateContainerOptions::default()
        };
        let made = self
            .call("to make a container", |docker| async move {
                docker.create_container(Some(options), body).await
            })
            .await?;
        Ok(made.id)
    }

    pub(crate) async fn start(&self, id: &str) -> Result<(), Fault> {
        let id = id.to_owned();
        self.call("to start a container", |docker| async move {
            docker
                .start_container(&id, None::<StartContainerOptions>)
                .await
        })
        .await
    }

    /// Ends one: asked first, then not. One that is not there has ended.
    pub(crate) async fn stop(&self, id: &str, grace: Duration) -> Result<(), Fault> {
        let options = StopContainerOptions {
            t: Some(i32::try_from(grace.as_millis().div_ceil(1000)).unwrap_or(i32::MAX)),
            ..StopContainerOptions::default()
        };
        let id = id.to_owned();
        let within = self.deadline.saturating_add(grace);
        let answer = self
            .call_within(within, "to stop a container", |docker| async move {
                docker.stop_container(&id, Some(options)).await
            })
            .await;
        gone_is_fine(answer)
    }

    /// Removes one, whatever it does, and the volumes that have no name. One that is not there is removed.
    pub(crate) async fn remove(&self, id: &str) -> Result<(), Fault> {
        let options = RemoveContainerOptions {
            v: true,
            force: true,
            link: false,
        };
        let id = id.to_owned();
        let answer = self
            .call("to remove a container", |docker| async move {
                docker.remove_container(&id, Some(options)).await
            })
            .await;
        gone_is_fine(answer)
    }

    pub(crate) async fn unpause(&self, id: &str) -> Result<(), Fault> {
        let id = id.to_owned();
        self.call("to let a container go on", |docker| async move {
            docker.unpause_container(&id).await
        })
        .await
    }

    pub(crate) async fn rename(&self, id: &str, name: &str) -> Result<(), Fault> {
        let id = id.to_owned();
        let options = RenameContainerOptions {
            name: name.to_owned(),
        };
        self.call("to name a container", |docker| async move {
            docker.rename_container(&id, options).await
        })
        .await
    }

    /// Returns when a container has ended, or after `at_most`; or at once when it cannot be waited for, and is to be
    /// looked at.
    pub(crate) async fn ended(&self, id: &str, at_most: Duration) -> Result<(), Fault> {
        let docker = self.client().await?;
        let mut answers = std::pin::pin!(docker.wait_container(id, None));
        // Docker answers at once and goes on when it ended, Podman answers when it ended.
        match timeout(at_most, answers.next()).await {
            Err(_) | Ok(None | Some(Ok(_) | Err(Error::DockerContainerWaitError { .. }))) => Ok(()),
            Ok(Some(Err(error))) => Err(self.fault(Asked::Other("to wait for a container"), error)),
        }
    }

    /// The labels of a volume; nothing when there is none of this name.
    pub(crate) async fn volume(
        &self,
        name: &str,
    ) -> Result<Option<BTreeMap<String, String>>, Fault> {
        let name = name.to_owned();
        let answer = self
            .call("for a volume", |docker| async move {
                docker.inspect_volume(&name).await
            })
            .await;
        match answer {
            Ok(volume) => Ok(Some(volume.labels.into_iter().collect())),
            Err(Fault::Missing) => Ok(None),
            Err(fault) => Err(fault),
        }
    }

    pub(crate) async fn remove_volume(&self, name: &str) -> Result<(), Fault> {
        let name = name.to_owned();
        let answer = self
            .call("to remove a volume", |docker| async move {
                docker
                    .remove_volume(&name, None::<RemoveVolumeOptions>)
                    .await
            })
            .await;
        gone_is_fine(answer)
    }

    /// Runs a command in a container and says how it ended: with success, or what it said last. Dropped, nobody waits for
    /// it any more; an engine has no way to end it.
    pub(crate) async fn exec(
        &self,
        id: &str,
        argv: &[String],
    ) -> Result<Result<(), String>, Fault> {
        let config = ExecConfig {
            cmd: Some(argv.to_vec()),
            attach_stdout: Some(true),
            attach_stderr: Some(true),
            ..ExecConfig::default()
        };
        let made = id.to_owned();
        let exec = self
            .call("to run a command in a container", |docker| async move {
                docker.create_exec(&made, config).await
            })
            .await?
            .id;
        let docker = self.client().await?;
        let said = stream::said(&docker, &exec)
            .await
            .map_err(|error| self.fault(Asked::Other("to run a command in a container"), error))?;
        let answer = self
            .call("how a command ended", |docker| async move {
                docker.inspect_exec(&exec).await
            })
            .await?;
        Ok(match answer.exit_code {
            Some(0) => Ok(()),
            Some(code) if said.is_empty() => Err(format!("its command ended with status {code}")),
            Some(code) => Err(format!("its command ended with status {code}: {said}")),
            None => Err("its command has not ended".to_owned()),
        })
    }

    async fn call<T, F: Future<Output = Result<T, Error>>>(
        &self,
        what: &'static str,
        call: impl FnOnce(Docker) -> F,
    ) -> Result<T, Fault> {
        self.call_within(self.deadline, what, call).await
    }

    async fn call_within<T, F: Future<Output = Result<T, Error>>>(
        &self,
        within: Duration,
        what: &'static str,
        call: impl FnOnce(Docker) -> F,
    ) -> Result<T, Fault> {
        let docker = self.client().await?;
        match timeout(within, call(docker)).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => Err(self.fault(Asked::Other(what), error)),
            Err(_) => {
                self.forget();
                Err(Fault::Unresponsive {
                    what,
                    after: within,
                })
            }
        }
    }

    /// What an error means. After one of the connection the next call makes another.
    fn fault(&self, asked: Asked<'_>, error: Error) -> Fault {
        match error {
            Error::DockerResponseServerError {
                status_code,
                message,
            } => classify(asked, Some(status_code), &message),
            Error::DockerStreamError { error } => classify(asked, None, &error),
            // A document that was cut short, or is none: what is understood of it is nothing.
            Error::JsonDataError { message, .. } => classify(asked, None, &message),
            Error::RequestTimeoutError => Fault::Unresponsive {
                what: "a call",
                after: self.deadline,
            },
            broken => {
                self.forget();
                Fault::Away(with_causes(&broken))
            }
        }
    }

    fn forget(&self) {
        *self.client.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

fn gone_is_fine(answer: Result<(), Fault>) -> Result<(), Fault> {
    match answer {
        Err(Fault::Missing) => Ok(()),
        answer => answer,
    }
}

/// An error and what it came from, as one line.
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}
