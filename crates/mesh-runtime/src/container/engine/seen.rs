//! A container as an engine shows it.

use bollard::models::{ContainerInspectResponse, ContainerState, ContainerStateStatusEnum};
use mesh_model::Workload;

use crate::container::label;

/// A container as an engine shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) id: String,
    pub(crate) name: String,
    /// When it was made, as the engine writes it: the later, the greater.
    pub(crate) created: String,
    /// Whose it is; nothing when it is no agent's.
    pub(crate) owner: Option<String>,
    /// Which module it is.
    pub(crate) module: Option<String>,
    /// A hash of what it was made from.
    pub(crate) spec: Option<String>,
    /// What it was made from; nothing when this version does not understand its record.
    pub(crate) workload: Option<Workload>,
    pub(crate) state: State,
    /// Its process, while it has one.
    pub(crate) pid: Option<u32>,
    /// The image it was made from, by the engine's own id.
    pub(crate) image: Option<String>,
}

/// What a container does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum State {
    /// It was never started.
    Created,
    /// It runs.
    Running,
    /// Somebody holds it.
    Paused,
    /// It ended.
    Ended(Exit),
    /// It is on its way out, or broken: there is nothing to be done with it but to remove it.
    Leaving,
}

/// How a container ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Exit {
    /// Its status; 128 and the signal's number after a signal.
    pub(crate) code: i64,
    /// It used more memory than it may.
    pub(crate) oom: bool,
    /// When, as the engine writes it.
    pub(crate) at: String,
}

impl Exit {
    /// Whether somebody ended it: the two signals by which that is done, and not for its use of memory.
    pub(crate) const fn is_by_hand(&self) -> bool {
        !self.oom && matches!(self.code, 137 | 143)
    }

    /// In a few words.
    pub(crate) fn how(&self) -> String {
        match self.code {
            _ if self.oom => "killed: it used more memory than it may".to_owned(),
            code @ 129..=192 => format!("killed by signal {}", code - 128),
            code => format!("exited with status {code}"),
        }
    }
}

impl Seen {
    pub(super) fn of(container: ContainerInspectResponse) -> Option<Self> {
        let labels = container
            .config
            .and_then(|config| config.labels)
            .unwrap_or_default();
        let label = |name: &str| labels.get(name).cloned();
        let state = container.state.unwrap_or_default();
        Some(Self {
            id: container.id?,
            name: container
                .name
                .unwrap_or_default()
                .trim_start_matches('/')
                .to_owned(),
            created: container.created.unwrap_or_default(),
            owner: label(label::OWNER),
            module: label(label::MODULE),
            spec: label(label::SPEC),
            workload: labels
                .get(label::RECORD)
                .and_then(|record| label::decode(record)),
            pid: state
                .pid
                .and_then(|pid| u32::try_from(pid).ok())
                .filter(|pid| *pid > 0),
            state: State::of(state),
            image: container.image,
        })
    }
}

impl State {
    fn of(state: ContainerState) -> Self {
        let ended = || {
            Self::Ended(Exit {
                code: state.exit_code.unwrap_or_default(),
                oom: state.oom_killed == Some(true),
                at: state.finished_at.clone().unwrap_or_default(),
            })
        };
        match state.status {
            Some(ContainerStateStatusEnum::CREATED) => Self::Created,
            Some(ContainerStateStatusEnum::PAUSED) => Self::Paused,
            Some(ContainerStateStatusEnum::EXITED) => ended(),
            Some(ContainerStateStatusEnum::REMOVING | ContainerStateStatusEnum::DEAD) => {
                Self::Leaving
            }
            // On its way to an end, or between two starts: it is looked at again.
            Some(
                ContainerStateStatusEnum::RUNNING
                | ContainerStateStatusEnum::RESTARTING
                | ContainerStateStatusEnum::STOPPING,
            ) => Self::Running,
            _ if state.paused == Some(true) => Self::Paused,
            _ if state.running == Some(true) => Self::Running,
            _ => ended(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_it_ended_is_told_in_words() {
        for (code, oom, how, by_hand) in [
            (0, false, "exited with status 0", false),
            (3, false, "exited with status 3", false),
            (127, false, "exited with status 127", false),
            (137, false, "killed by signal 9", true),
            (143, false, "killed by signal 15", true),
            (139, false, "killed by signal 11", false),
            (137, true, "killed: it used more memory than it may", false),
            (255, false, "exited with status 255", false),
        ] {
            let exit = Exit {
                code,
                oom,
                at: String::new(),
            };
            assert_eq!((exit.how().as_str(), exit.is_by_hand()), (how, by_hand));
        }
    }
}
