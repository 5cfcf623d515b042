//! What is asked of the engine for a module without regard to how far it is: a container, and a look at the former one.

use std::collections::BTreeMap;

use mesh_model::ModuleName;
use tokio::time::timeout;
use tracing::{info, warn};

use super::starts_again;
use crate::Desired;
use crate::container::engine::{Exit, Seen, State};
use crate::container::fault::Fault;
use crate::container::sorted::{free_number, name};
use crate::container::{Shared, label, spec};

impl Shared {
    /// How it ended. What reaps for a module is started in its stead, and so it is this that says that a program is not
    /// there: in the log, and by a status that may be the program's as well.
    pub(super) async fn how(&self, current: &Seen, exit: &Exit) -> String {
        let how = exit.how();
        if !matches!(exit.code, 126 | 127) {
            return how;
        }
        let said = async {
            let mut logs = self.engine.logs(&current.id, 1).await.ok()?;
            logs.next().await?.ok()
        };
        let said = timeout(self.pace.grace, said).await.ok().flatten();
        let said = said.map(|line| String::from_utf8_lossy(&line.bytes).into_owned());
        match said.filter(|line| line.starts_with("[FATAL tini")) {
            Some(why) => Fault::Program { why }.to_string(),
            None => how,
        }
    }

    /// Starts again what is to be replaced and ended by itself while its successor is not there.
    pub(super) async fn tend(
        &self,
        module: &ModuleName,
        former: &Seen,
        ended_here: bool,
    ) -> Result<(), Fault> {
        let Some(seen) = self.engine.inspect(&former.id).await? else {
            return Ok(());
        };
        if let (State::Ended(exit), Some(workload), false) =
            (&seen.state, &seen.workload, ended_here)
            && starts_again(workload, exit)
        {
            info!(module = %module, container = seen.name, how = exit.how(), "started again, until its successor is there");
            // Whether it starts is said by the next look at it.
            drop(self.engine.start(&seen.id).await);
        }
        Ok(())
    }

    /// Makes a container. Asked twice it makes one: a name that is taken by just this one is success.
    pub(super) async fn create(&self, desired: &Desired, seen: &[Seen]) -> Result<String, Fault> {
        let module = desired.module();
        let grace = i64::try_from(self.pace.grace.as_secs()).unwrap_or(i64::MAX);
        let absent = self.absent_volumes(desired).await?;
        let mut number = free_number(module, seen, 1);
        for _ in 0..NAMES {
            let called = name(module, number);
            let body = spec::body(&self.owner, desired, grace, &self.engine.abilities());
            let Some(body) = body else { break };
            let fault = match self.engine.create(&called, body).await {
                Ok(id) => {
                    info!(module = %module, container = called, "made");
                    return Ok(id);
                }
                Err(fault) => fault,
            };
            if self.engine.learn(&fault.to_string()) {
                continue;
            }
            let Fault::Conflict { .. } = fault else {
                self.leave_no_volumes(module, absent).await;
                return Err(fault);
            };
            match self.engine.inspect(&called).await? {
                // It went meanwhile, and its name with it.
                None => {}
                Some(taken) if self.is_ours(&taken, desired) => return Ok(taken.id),
                // Another agent of this host, or what is kept of an earlier one.
                Some(taken) if taken.owner.is_some() => {
                    number = free_number(module, seen, number.saturating_add(1));
                }
                Some(taken) => {
                    self.leave_no_volumes(module, absent).await;
                    return Err(Fault::NameTaken {
                        name: called,
                        by: taken.id.chars().take(12).collect(),
                    });
                }
            }
        }
        Err(Fault::Refused {
            what: "to make a container",
            why: format!("no name is free for module {module}"),
        })
    }

    /// Whether a container is the one that was asked for: made by this agent, and from the same.
    fn is_ours(&self, taken: &Seen, desired: &Desired) -> bool {
        taken.owner.as_ref() == Some(&self.owner)
            && taken.module.as_deref() == Some(desired.module().as_str())
            && taken.spec.is_some()
            && taken.spec == label::spec(&desired.workload)
    }

    /// Which of the volumes it names the engine has yet to make.
    async fn absent_volumes(&self, desired: &Desired) -> Result<Vec<String>, Fault> {
        let container = desired.workload.run.container();
        let named = container.into_iter().flat_map(|it| &it.volumes);
        let mut absent = vec![];
        for volume in named.filter(|volume| !volume.is_path()) {
            if self.engine.volume(&volume.source).await?.is_none() {
                absent.push(volume.source.clone());
            }
        }
        Ok(absent)
    }

    /// Removes what a container that did not come to be would have had. What somebody else made meanwhile is theirs.
    async fn leave_no_volumes(&self, module: &ModuleName, absent: Vec<String>) {
        for name in absent {
            let removed = match self.engine.volume(&name).await {
                Ok(Some(labels)) if self.made(&labels, module) => {
                    self.engine.remove_volume(&name).await
                }
                Ok(_) => Ok(()),
                Err(fault) => Err(fault),
            };
            if let Err(fault) = removed {
                warn!(module = %module, volume = name, %fault, "left behind");
            }
        }
    }

    /// Whether these are the labels of what was made here for this module.
    fn made(&self, labels: &BTreeMap<String, String>, module: &ModuleName) -> bool {
        labels.get(label::OWNER) == Some(&self.owner)
            && labels.get(label::MODULE).map(String::as_str) == Some(module.as_str())
    }
}

/// Names that are tried for one container.
const NAMES: u32 = 32;
