//! Its image: whether it is there, and fetching it while it moves.

use std::sync::Arc;

use mesh_model::{Container, ModuleName, ModuleState, Workload};
use tokio::sync::watch;
use tokio::time::{Duration, Instant};
use tracing::{info, warn};

use super::{Full, Goal, Keeper};
use crate::container::Shared;
use crate::container::engine::{Held, PullBroken, Seen};
use crate::container::fault::Fault;
use crate::container::progress::Progress;
use crate::container::spec::{reference, registry};
use crate::{Desired, PullSecret};

impl Keeper {
    /// Sees to it that its image is there; `false` when something else may be wanted by now.
    ///
    /// A digest says which image it is, so that one that is there is not fetched again. A tag may lead elsewhere today: it
    /// is asked for once for each declaration, and not for another start of the same.
    pub(super) async fn fetch(
        &mut self,
        desired: &Desired,
        former: Option<&Seen>,
    ) -> Result<bool, Fault> {
        let Some(container) = desired.workload.run.container() else {
            return Ok(false);
        };
        let asked = reference(&container.image);
        let held = self.shared.engine.image(&asked).await?;
        let pinned = container.image.digest();
        let there = held
            .as_ref()
            .is_some_and(|held| pinned.map_or(self.life.fetched, |digest| held.is(digest)));
        if there {
            self.life.fetched = true;
            return Ok(true);
        }
        if !self.has_room().await {
            return Ok(false);
        }
        info!(module = %self.module, image = asked, "fetching");
        let running = former.and_then(|former| former.workload.clone());
        let shown = Desired {
            workload: running.unwrap_or_else(|| desired.workload.clone()),
            ..desired.clone()
        };
        let pid = former.and_then(|former| former.pid);
        self.show(&shown, ModuleState::Pulling, pid, None);
        let fetching = Fetching {
            shared: Arc::clone(&self.shared),
            module: &self.module,
            former,
            ended_here: self.life.ended_former,
            asked: &asked,
        };
        let (goal, declared) = (self.goal.clone(), self.declared.as_ref());
        let outcome = fetching
            .run(container, desired.pull_secret.as_ref(), goal, declared)
            .await;
        self.shared.doing(&self.module, None);
        match outcome {
            Ok(true) => {}
            Ok(false) => return Ok(false),
            // An image that is there by this tag is better than none.
            Err(fault) if fault.is_of_the_way() && pinned.is_none() && held.is_some() => {
                warn!(module = %self.module, %fault, "the image that is there by this tag is used");
            }
            Err(fault) => {
                if let Fault::DiskFull { .. } = fault {
                    self.disk_full();
                }
                return Err(fault);
            }
        }
        let held = self.shared.engine.image(&asked).await?;
        is_it(&asked, pinned, held.as_ref(), container)?;
        self.life.fetched = true;
        self.life.ends = 0;
        Ok(true)
    }

    /// The disk was full: it is tried again when there is more room, and not before.
    pub(super) fn disk_full(&mut self) {
        self.life.full = Some(Full {
            at: Instant::now(),
            free: None,
        });
    }

    /// Whether there is more room than when the disk was full; where that cannot be known, there may be.
    async fn has_room(&mut self) -> bool {
        let Some(full) = self.life.full else {
            return true;
        };
        let room = self.shared.engine.room().await;
        let more = match (room, full.free) {
            _ if full.at.elapsed() >= FULL => true,
            (None, _) => true,
            // What the broken pull left is cleared up by now.
            (Some((free, _)), None) => {
                self.life.full = Some(Full {
                    free: Some(free),
                    ..full
                });
                false
            }
            (Some((free, _)), Some(then)) => free >= then.saturating_add(MORE),
        };
        if more {
            self.life.full = None;
        } else {
            self.life.due = Some(Instant::now() + LOOK);
        }
        more
    }
}

/// One pull.
struct Fetching<'a> {
    shared: Arc<Shared>,
    module: &'a ModuleName,
    /// What goes on meanwhile.
    former: Option<&'a Seen>,
    /// It was ended here, and does not.
    ended_here: bool,
    asked: &'a str,
}

impl Fetching<'_> {
    /// Fetches an image; `false` when that was dropped for something else that is wanted.
    async fn run(
        &self,
        container: &Container,
        secret: Option<&PullSecret>,
        mut goal: watch::Receiver<Goal>,
        declared: Option<&Workload>,
    ) -> Result<bool, Fault> {
        let shared = &self.shared;
        let registry = registry(&container.image);
        let mut pulling = shared.engine.pull(self.asked, secret, registry).await?;
        let mut progress = Progress::default();
        let (mut moved, mut looked) = (Instant::now(), Instant::now());
        loop {
            shared.doing(self.module, Some(progress.text()));
            let patience = progress.patience(shared.stall);
            let left = (moved + patience).saturating_duration_since(Instant::now());
            let line = tokio::select! {
                biased;
                () = superseded(&mut goal, declared) => return Ok(false),
                line = pulling.line(left.min(LOOK)) => line,
            };
            match line {
                Ok(None) => return Ok(true),
                Ok(Some(line)) if progress.take(&line) => moved = Instant::now(),
                Ok(Some(_)) => {}
                Err(PullBroken::Fault(fault)) => return Err(fault),
                Err(PullBroken::Silent) if moved.elapsed() < patience => {}
                Err(PullBroken::Silent) => {
                    return Err(Fault::Stalled {
                        image: self.asked.to_owned(),
                        at: progress.text(),
                        after: patience,
                    });
                }
            }
            if looked.elapsed() >= LOOK {
                looked = Instant::now();
                check_room(shared, progress.missing()).await?;
                if let Some(former) = self.former {
                    shared.tend(self.module, former, self.ended_here).await?;
                }
            }
        }
    }
}

/// Whether it still fits, as far as its layers have said how large they are.
async fn check_room(shared: &Shared, missing: u64) -> Result<(), Fault> {
    if missing == 0 {
        return Ok(());
    }
    match shared.engine.room().await {
        Some((free, dir)) if free < missing => Err(Fault::DiskFull {
            why: format!(
                "at least {} MB are still to be fetched, and {dir} has {} MB left",
                missing / 1_000_000,
                free / 1_000_000
            ),
        }),
        _ => Ok(()),
    }
}

/// Returns when something else is wanted than `declared`; what is declared again as it is, goes on.
async fn superseded(goal: &mut watch::Receiver<Goal>, declared: Option<&Workload>) {
    let other = |goal: &Goal| {
        let wanted = goal.desired.as_ref().map(|desired| &desired.workload);
        !declared
            .zip(wanted)
            .is_some_and(|(before, wanted)| before.runs_as(wanted))
    };
    // Nobody is left who could want anything when the runtime ends, and this with it.
    if goal.wait_for(other).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// That what the engine has now is what was asked for.
fn is_it(
    asked: &str,
    pinned: Option<&str>,
    held: Option<&Held>,
    container: &Container,
) -> Result<(), Fault> {
    let Some(held) = held else {
        return Err(Fault::Unknown {
            image: asked.to_owned(),
            why: "the engine says that it fetched it, and does not have it".to_owned(),
        });
    };
    if pinned.is_some_and(|digest| !held.is(digest)) {
        return Err(Fault::OtherDigest {
            image: asked.to_owned(),
            found: held.digest(container.image.repository()),
        });
    }
    Ok(())
}

/// How often it is looked how much room there is, and whether what is to be replaced still runs.
const LOOK: Duration = Duration::from_secs(2);
/// How much more room is a reason to try again.
const MORE: u64 = 4 * 1024 * 1024;
/// After this long it is tried again whatever room there is: what was in the way may have been another limit.
const FULL: Duration = Duration::from_hours(1);
