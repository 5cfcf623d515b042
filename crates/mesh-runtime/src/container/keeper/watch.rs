//! A container that runs: watched for its end, its health, and what others do to it.

use std::sync::Arc;

use mesh_control::convergence::Input;
use mesh_model::ModuleState;
use tracing::info;

use super::{Flow, Goal, Keeper};
use crate::Desired;
use crate::container::Shared;
use crate::container::engine::Seen;
use crate::container::fault::Fault;
use crate::container::sorted::{is_name, name};
use crate::health::Exec;
use crate::vitals::{Sign, Vitals};

impl Keeper {
    /// Watches a container until something is to be done, or it is to be looked at again.
    pub(super) async fn watch(
        &mut self,
        goal: &Goal,
        desired: &Arc<Desired>,
        current: Seen,
        former: Option<Seen>,
    ) -> Result<Flow, Fault> {
        self.correct_name(&current).await?;
        self.know_image(desired, &current).await?;
        let settle = self.shared.pace.settle;
        let found = self.life.vitals.is_none();
        let vitals = self.life.vitals.get_or_insert_with(|| {
            // With what it replaces beside it, nobody has yet said that it is good.
            if former.is_some() {
                Vitals::trial(&desired.workload, settle)
            } else {
                Vitals::good(&desired.workload)
            }
        });
        if found {
            self.life.started = true;
            drop(vitals.handle(Input::Started));
        }
        let trial = vitals.is_trial();
        self.note_started(&current.id).await;
        if trial {
            self.show(desired, ModuleState::Starting, current.pid, None);
        } else {
            if former.is_some() {
                self.good(desired, former.as_ref()).await?;
            }
            self.life.passed = true;
            self.life.trouble = None;
            self.show(desired, ModuleState::Running, current.pid, None);
            self.settle(goal);
        }
        let Some(input) = self.next(&current).await? else {
            return Ok(Flow::Again);
        };
        let sign = self.life.vitals.as_mut().and_then(|it| it.handle(input));
        match sign {
            // What it replaced goes in the next round.
            None | Some(Sign::Good) => {}
            Some(Sign::Bad(why)) => {
                return self.bad(goal, desired, Some(&current), former, why).await;
            }
            Some(Sign::Unhealthy(how)) => self.unhealthy(desired, &current, how).await?,
        }
        Ok(Flow::Again)
    }

    /// What is due of its health; nothing when it is to be looked at.
    async fn next(&mut self, current: &Seen) -> Result<Option<Input>, Fault> {
        let (shared, vitals) = (&self.shared, &mut self.life.vitals);
        let inside = || Inside {
            shared: Arc::clone(shared),
            id: current.id.clone(),
        };
        let due = async {
            match vitals {
                Some(vitals) => vitals.due(inside).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            _ = self.goal.changed() => Ok(None),
            ended = shared.engine.ended(&current.id, shared.sweep) => ended.map(|()| None),
            input = due => Ok(Some(input)),
        }
    }

    /// Which image it was made from: asked of the container, since a tag may lead elsewhere by now.
    async fn know_image(&mut self, desired: &Desired, current: &Seen) -> Result<(), Fault> {
        let container = desired.workload.run.container();
        let of = (current.image.as_ref(), container, &self.life.image);
        let (Some(id), Some(container), None) = of else {
            return Ok(());
        };
        let image = &container.image;
        self.life.image = self.shared.engine.image(id).await?.map(|held| {
            let pinned = image.digest().filter(|digest| held.is(digest));
            pinned.map_or_else(|| held.digest(image.repository()), str::to_owned)
        });
        Ok(())
    }

    /// Gives a container that somebody renamed a name of ours again.
    async fn correct_name(&mut self, current: &Seen) -> Result<(), Fault> {
        if is_name(&self.module, &current.name) {
            return Ok(());
        }
        for number in 1..=NAMES {
            let called = name(&self.module, number);
            match self.shared.engine.rename(&current.id, &called).await {
                Ok(()) => {
                    info!(module = %self.module, was = current.name, now = called, "renamed by somebody else");
                    self.repaired().await;
                    return Ok(());
                }
                Err(Fault::Conflict { .. }) => {}
                Err(fault) => return Err(fault),
            }
        }
        // Names are for people: whoever has these may keep them.
        Ok(())
    }
}

/// Names that are tried.
const NAMES: u32 = 3;

/// Where a command is run that asks for health.
struct Inside {
    shared: Arc<Shared>,
    id: String,
}

impl Exec for Inside {
    async fn exec(&self, command: &[String]) -> Result<(), String> {
        match self.shared.engine.exec(&self.id, command).await {
            Ok(answer) => answer,
            Err(fault) => Err(fault.to_string()),
        }
    }
}
