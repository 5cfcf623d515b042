//! A module's manifest: what it needs and what it may do.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::{EventName, EventRef, ModuleName, Restart, Run, SeatName};

/// What one module is: how it runs, what it says, what it hears, which seats it may hold and which it sends work to.
///
/// Its authority on the bus is worked out from this and from nothing else.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The module's name.
    pub module: ModuleName,
    /// The release, for people and for reports; never interpreted.
    pub release: String,
    /// How it runs.
    pub run: Run,
    /// Modules of the same node that start before it.
    pub after: BTreeSet<ModuleName>,
    /// Environment of its process. Names beginning `MESH_` are the mesh's own.
    pub env: BTreeMap<String, String>,
    /// What happens when it ends.
    pub restart: Restart,
    /// Events it emits, besides `announced`, which every module may.
    pub emits: BTreeSet<EventName>,
    /// Events it follows, by exact name.
    pub follows: BTreeSet<EventRef>,
    /// Seats it can hold.
    pub can_hold: BTreeSet<SeatName>,
    /// Seats it sends work to.
    pub sends_to: BTreeSet<SeatName>,
}

/// A manifest that contradicts itself.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ManifestError {
    /// An environment name the mesh sets itself.
    #[error("env {name:?}: names beginning MESH_ are set by the mesh; choose another")]
    ReservedEnv {
        /// The name.
        name: String,
    },
    /// An environment name no process can be given.
    #[error("env {name:?}: a name is not empty and holds neither '=' nor NUL")]
    InvalidEnv {
        /// The name.
        name: String,
    },
    /// It waits for itself.
    #[error("after: {module} cannot start after itself")]
    AfterItself {
        /// The module.
        module: ModuleName,
    },
    /// `announced` listed as if it were the author's.
    #[error("emits: \"announced\" is reserved and every module may emit it; leave it out")]
    AnnouncedListed,
    /// Text that cannot be handed to a process.
    #[error("{field} holds a NUL byte, which no process can be handed")]
    Nul {
        /// Which field.
        field: &'static str,
    },
    /// More bytes than a declaration should carry for one module.
    #[error(
        "{field} has {bytes} bytes and may have at most {limit}; hand the module a file instead"
    )]
    TooLarge {
        /// Which field.
        field: &'static str,
        /// How many it has.
        bytes: usize,
        /// How many it may have.
        limit: usize,
    },
    /// More events than one consumer or one grant should carry.
    #[error("{field} lists {count} entries and may list at most {limit}; split the module")]
    TooMany {
        /// Which field.
        field: &'static str,
        /// How many it has.
        count: usize,
        /// How many it may have.
        limit: usize,
    },
}

/// Subjects one consumer may filter on: the server checks them pairwise, 1,000 take it a tenth of a second.
const FOLLOWS_LIMIT: usize = 1000;
/// Events one module may emit: each is an entry of its grant, and a grant is held by the server in memory.
const EMITS_LIMIT: usize = 1000;

/// Modules one starts after, variables, and words of its command.
const LIST_LIMIT: usize = 256;
/// Seats one module may hold, or send work to: each is a consumer or an entry of its grant.
const SEATS_LIMIT: usize = 256;
/// Bytes of a module's environment, and of its command: a node's declaration is one message with all its modules.
const TEXT_LIMIT: usize = 16 * 1024;
/// Bytes of a release: it is shown as one line.
const RELEASE_LIMIT: usize = 128;

impl Manifest {
    fn sizes(&self) -> impl Iterator<Item = ManifestError> {
        let env = self
            .env
            .iter()
            .map(|(name, value)| name.len() + value.len());
        let command = self.run.argv().map(str::len);
        let large = [
            ("release", self.release.len(), RELEASE_LIMIT),
            ("env", env.sum(), TEXT_LIMIT),
            ("command", command.sum(), TEXT_LIMIT),
        ];
        let many = [
            ("follows", self.follows.len(), FOLLOWS_LIMIT),
            ("emits", self.emits.len(), EMITS_LIMIT),
            ("after", self.after.len(), LIST_LIMIT),
            ("env", self.env.len(), LIST_LIMIT),
            ("command", self.run.argv().count(), LIST_LIMIT),
            ("can_hold", self.can_hold.len(), SEATS_LIMIT),
            ("sends_to", self.sends_to.len(), SEATS_LIMIT),
        ];
        let large = large
            .into_iter()
            .filter(|(_, bytes, limit)| bytes > limit)
            .map(|(field, bytes, limit)| ManifestError::TooLarge {
                field,
                bytes,
                limit,
            });
        let many = many
            .into_iter()
            .filter(|(_, count, limit)| count > limit)
            .map(|(field, count, limit)| ManifestError::TooMany {
                field,
                count,
                limit,
            });
        large.chain(many)
    }

    /// Everything that no field alone can show, in a stable order; nothing when it is whole.
    pub fn check(&self) -> Vec<ManifestError> {
        let mut errors = Vec::new();
        for name in self.env.keys() {
            if name.starts_with("MESH_") {
                errors.push(ManifestError::ReservedEnv { name: name.clone() });
            } else if name.is_empty() || name.contains(['=', '\0']) {
                errors.push(ManifestError::InvalidEnv { name: name.clone() });
            }
        }
        if self.env.values().any(|value| value.contains('\0')) {
            errors.push(ManifestError::Nul { field: "env" });
        }
        if self.after.contains(&self.module) {
            let module = self.module.clone();
            errors.push(ManifestError::AfterItself { module });
        }
        if self.emits.contains(&EventName::announced()) {
            errors.push(ManifestError::AnnouncedListed);
        }
        if self.run.argv().any(|word| word.contains('\0')) {
            errors.push(ManifestError::Nul { field: "command" });
        }
        errors.extend(self.sizes());
        errors
    }
}
