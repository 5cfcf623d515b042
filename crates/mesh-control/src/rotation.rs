//! A module's credential is replaced before it is old: the one before it stays good until the module has taken the new
//! one, or for a while.

use mesh_model::{
    CredentialLife, InstanceRecord, InstanceRef, ModuleName, NodeName, Principal, PublicKey,
    Records, Retiring, Timestamp,
};

use crate::amend::CommandError;
use crate::placement::{Mint, MintError, Minted};

/// When credentials are replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rotation {
    /// Milliseconds after which one is replaced; nothing: never by itself.
    pub after: Option<u64>,
    /// Milliseconds the one before stays good, for a module that does not take the new one by itself.
    pub overlap: u64,
}

impl Default for Rotation {
    fn default() -> Self {
        Self {
            after: Some(30 * DAY),
            overlap: DAY,
        }
    }
}

/// What is to be done about one credential.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Turn {
    /// An earlier release did not say how old it is: it is as old as this release's first look at it.
    Date,
    /// It is old: another takes its place.
    Replace,
    /// The module is known to use the new one: the old one is good no longer.
    Taken,
    /// The time of the old one is over, and nobody said that the new one is used: whatever was started with another than
    /// the new one is started again.
    Insist,
    /// And that has been waited for.
    Forget,
}

impl Turn {
    /// Whether the node is told something.
    pub(crate) const fn tells(self) -> bool {
        matches!(self, Self::Replace | Self::Insist)
    }
}

/// What is due, of as many as are done at once. `takes` says whether a module is known to use this key.
pub(crate) fn due(
    records: &Records,
    rotation: &Rotation,
    takes: impl Fn(&InstanceRef, &PublicKey) -> bool,
    now: Timestamp,
) -> Vec<(InstanceRef, Turn)> {
    let due = records.instances.iter().filter_map(|(instance, record)| {
        let turn = turn(instance, record, rotation, &takes, now)?;
        Some((instance.clone(), turn))
    });
    due.take(AT_ONCE).collect()
}

fn turn(
    instance: &InstanceRef,
    record: &InstanceRecord,
    rotation: &Rotation,
    takes: impl Fn(&InstanceRef, &PublicKey) -> bool,
    now: Timestamp,
) -> Option<Turn> {
    let life = &record.life;
    let Some(made) = life.made else {
        return Some(Turn::Date);
    };
    if let Some(retiring) = &life.retiring {
        return match () {
            () if takes(instance, &record.key) => Some(Turn::Taken),
            () if now < retiring.until => None,
            () if life.accepts.is_empty() => Some(Turn::Forget),
            () => Some(Turn::Insist),
        };
    }
    let after = rotation.after?;
    (now.since(made) >= after - spread(instance, after)).then_some(Turn::Replace)
}

/// A part of up to a tenth, another for each: what was declared at once is not replaced at once.
fn spread(instance: &InstanceRef, after: u64) -> u64 {
    let text = instance.to_string();
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    (after / 10_000).saturating_mul(hash % 1000)
}

/// Does it, if it is still to be done; whether it was.
pub(crate) fn take(
    instance: &InstanceRef,
    record: &mut InstanceRecord,
    turn: Turn,
    rotation: &Rotation,
    now: Timestamp,
    mint: &mut impl Mint,
) -> Result<bool, MintError> {
    let life = &mut record.life;
    let retires = life.retiring.is_some();
    match turn {
        Turn::Date if life.made.is_none() => life.made = Some(now),
        Turn::Replace if !retires => replace(instance, record, rotation.overlap(), now, mint)?,
        Turn::Taken | Turn::Forget if retires => life.retiring = None,
        Turn::Insist => {
            let Some(retiring) = &mut life.retiring else {
                return Ok(false);
            };
            // Until what is started again runs, what runs is not cut off.
            retiring.until = now.plus(rotation.overlap().min(STARTED_AGAIN_WITHIN));
            life.accepts.clear();
        }
        _ => return Ok(false),
    }
    Ok(true)
}

fn replace(
    instance: &InstanceRef,
    record: &mut InstanceRecord,
    overlap: u64,
    now: Timestamp,
    mint: &mut impl Mint,
) -> Result<(), MintError> {
    let whom = Principal::Instance(instance.clone());
    let Minted { key, credential } = mint.mint(&whom, record.bus, &record.sealed_to)?;
    let old = std::mem::replace(&mut record.key, key);
    record.credential = credential;
    let mut accepts = std::mem::take(&mut record.life.accepts);
    if accepts.len() >= ACCEPTED {
        // What runs since then is started again, once.
        accepts.clear();
    }
    accepts.insert(old.clone());
    record.life = CredentialLife {
        made: Some(now),
        retiring: Some(Retiring {
            key: old,
            until: now.plus(overlap),
        }),
        accepts,
    };
    Ok(())
}

/// Replaces the credentials of a module at once, on one node or on all, because an operator says so.
pub(crate) fn force(
    records: &mut Records,
    module: &ModuleName,
    node: Option<&NodeName>,
    overlap: u64,
    now: Timestamp,
    mint: &mut impl Mint,
) -> Result<String, CommandError> {
    let of = |instance: &InstanceRef| {
        instance.module == *module && node.is_none_or(|node| *node == instance.node)
    };
    let mut replaced = 0;
    for (instance, record) in &mut records.instances {
        if !of(instance) {
            continue;
        }
        if record.life.retiring.is_some() {
            return Err(CommandError::Rotating(instance.clone()));
        }
        replace(instance, record, overlap, now, mint)?;
        replaced += 1;
    }
    match replaced {
        0 => Err(CommandError::RunsNowhere(module.clone())),
        1 => Ok(format!("replace the credential of module {module}")),
        many => Ok(format!("replace {many} credentials of module {module}")),
    }
}

impl Rotation {
    /// No longer than a third of what a credential lives.
    fn overlap(&self) -> u64 {
        self.after
            .map_or(self.overlap, |after| self.overlap.min(after / 3))
    }
}

const DAY: u64 = 24 * 3_600_000;
/// Credentials replaced by one change: each is a declaration, and a connection that comes and goes.
const AT_ONCE: usize = 32;
/// Keys a running module may have been started with.
const ACCEPTED: usize = 16;
/// How long a module that is started again may take for that.
const STARTED_AGAIN_WITHIN: u64 = 10 * 60_000;
