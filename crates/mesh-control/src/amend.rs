//! What an operator asks, and the records it makes of those there are.

use std::collections::BTreeMap;

use mesh_model::{
    BusKind, Declared, InstanceRef, Labels, MeshError, ModuleName, Moving, NodeName, Principal,
    Records, Revision, Scheduling, Sealed, SeatName, SeatRecord, SecretName, Timestamp, TokenId,
    TokenRecord, labels_too_large,
};

use crate::placement::{Mint, MintError, Minted, Places, settle_instances};
use crate::rotation;
use crate::secrets;
use crate::spread::standing;

/// A change an operator asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// This is the whole of what is declared now.
    Apply {
        /// The content of the operator's directory.
        declared: Declared,
        /// Only if nobody changed anything since this revision.
        if_revision: Option<Revision>,
    },
    /// A module holds a seat from now on, or nobody does.
    Assign {
        /// The seat.
        seat: SeatName,
        /// Its holder.
        holder: Option<ModuleName>,
    },
    /// A host that holds this may become a node.
    CreateToken {
        /// The token's public id.
        id: TokenId,
        /// What is kept of it.
        token: TokenRecord,
    },
    /// A token is good no longer: whoever holds it is cut off.
    RevokeToken {
        /// The token's public id.
        id: TokenId,
    },
    /// A host is no node any more: its credential ends, and so do those of its modules.
    RemoveNode {
        /// The node.
        node: NodeName,
    },
    /// A node has exactly these labels.
    Label {
        /// The node.
        node: NodeName,
        /// Its labels.
        labels: Labels,
    },
    /// Modules are placed on a node from now on, or no new ones, or none at all.
    Schedule {
        /// The node.
        node: NodeName,
        /// Which.
        scheduling: Scheduling,
    },
    /// A node goes to another bus, once it has proven that it works there; or stays where it is.
    Move {
        /// The node.
        node: NodeName,
        /// The bus.
        to: BusKind,
    },
    /// A secret has this value from now on.
    SetSecret {
        /// The secret.
        secret: SecretName,
        /// The value, sealed to the controller.
        sealed: Sealed,
    },
    /// A module has other credentials from now on; those before stay good for a while.
    Rotate {
        /// The module.
        module: ModuleName,
        /// On this node only.
        node: Option<NodeName>,
        /// For how many milliseconds the ones before stay good.
        overlap: u64,
    },
    /// A secret nobody needs is forgotten.
    RemoveSecret {
        /// The secret.
        secret: SecretName,
    },
}

/// Why a change was not made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// Somebody else changed something.
    #[error(
        "the mesh is at revision {found}, not {expected}: look at `meshctl plan` again, then apply"
    )]
    Conflict {
        /// What the operator had seen.
        expected: Revision,
        /// What it is.
        found: Revision,
    },
    /// What is declared contradicts itself.
    #[error("what is declared contradicts itself: {}", sentences(.0))]
    Declared(Vec<MeshError>),
    /// No such seat.
    #[error("there is no seat {0}; `meshctl seat ls` lists them")]
    UnknownSeat(SeatName),
    /// No such node.
    #[error("there is no node {0}; `meshctl node ls` lists them")]
    UnknownNode(NodeName),
    /// It cannot hold that seat.
    #[error("module {module} cannot hold seat {seat}: it {why}")]
    CannotHold {
        /// The seat.
        seat: SeatName,
        /// The module.
        module: ModuleName,
        /// Why not.
        why: &'static str,
    },
    /// No such bus.
    #[error("this mesh is not on {0}; give the controller a [bus.{0}] beside the bus it has")]
    NoBus(BusKind),
    /// It is there.
    #[error("node {0} is on {1} already")]
    OnThatBus(NodeName, BusKind),
    /// It is on its way.
    #[error("node {0} is on its way to {1}; `meshctl node ls` shows how far")]
    Moving(NodeName, BusKind),
    /// No such token.
    #[error("there is no token {0}; `meshctl token ls` lists them")]
    UnknownToken(TokenId),
    /// The id is in use.
    #[error("token id {0} is in use; try again")]
    TokenExists(TokenId),
    /// The key is in use.
    #[error("the key of token {0} is already somebody's; try again")]
    KeyInUse(TokenId),
    /// More labels than a node may have.
    #[error("the labels {0}")]
    Labels(String),
    /// There is nothing to replace.
    #[error("module {0} runs on no such node; `meshctl module ls` shows where modules run")]
    RunsNowhere(ModuleName),
    /// It is being replaced.
    #[error(
        "the credential of module {} on {} was replaced, and the one before is still good; wait until the module has \
         taken the new one", .0.module, .0.node
    )]
    Rotating(InstanceRef),
    /// No such secret.
    #[error("there is no secret {0}; `meshctl secret ls` lists them")]
    UnknownSecret(SecretName),
    /// Modules that could not start.
    #[error("{}", unset(.0))]
    SecretsUnset(BTreeMap<SecretName, Vec<ModuleName>>),
    /// Modules could not start again.
    #[error("secret {secret} is needed by {}; apply manifests that do not name it first", names(.modules))]
    SecretInUse {
        /// The secret.
        secret: SecretName,
        /// Who names it.
        modules: Vec<ModuleName>,
    },
    /// More than a node can be told at once.
    #[error(
        "the secrets of the modules on node {node} have {bytes} bytes, and {limit} fit into what a node is told; \
         shorten them, or place fewer of the modules there"
    )]
    SecretsTooLarge {
        /// The node.
        node: NodeName,
        /// How many they have, sealed.
        bytes: usize,
        /// How many they may have.
        limit: usize,
    },
    /// A node's key is no key.
    #[error(transparent)]
    Mint(#[from] MintError),
    /// What would be derived does not hold together.
    #[error("what would be derived does not hold together, nothing was changed: {0}")]
    Plan(String),
    /// The store did not take it.
    #[error(
        "the store did not take the change ({0}); it may be there once the store is back: look at `meshctl status`"
    )]
    Store(String),
}

fn names(modules: &[ModuleName]) -> String {
    let names: Vec<&str> = modules.iter().map(ModuleName::as_str).collect();
    names.join(", ")
}

fn unset(secrets: &BTreeMap<SecretName, Vec<ModuleName>>) -> String {
    let sentences = secrets.iter().map(|(secret, modules)| {
        let modules = names(modules);
        format!("secret {secret}, which {modules} needs, is not set: `meshctl secret set {secret}`")
    });
    sentences.collect::<Vec<_>>().join("; ")
}

fn sentences(errors: &[MeshError]) -> String {
    let sentences: Vec<String> = errors.iter().map(ToString::to_string).collect();
    sentences.join("; ")
}

/// The records after a command, and what it did in one sentence.
pub(crate) fn amend(
    records: &Records,
    command: &Command,
    places: &Places,
    now: Timestamp,
    mint: &mut impl Mint,
) -> Result<(Records, String), CommandError> {
    let mut next = records.clone();
    let what = match command {
        Command::Apply {
            declared,
            if_revision,
        } => apply(&mut next, declared, *if_revision)?,
        Command::Assign { seat, holder } => assign(&mut next, seat, holder.as_ref())?,
        Command::CreateToken { id, token } => create_token(&mut next, id, token)?,
        Command::RevokeToken { id } => {
            if next.tokens.remove(id).is_none() {
                return Err(CommandError::UnknownToken(id.clone()));
            }
            format!("revoke token {id}")
        }
        Command::RemoveNode { node } => {
            if next.nodes.remove(node).is_none() {
                return Err(CommandError::UnknownNode(node.clone()));
            }
            format!("remove node {node}")
        }
        Command::Label { node, labels } => {
            let Some(record) = next.nodes.get_mut(node) else {
                return Err(CommandError::UnknownNode(node.clone()));
            };
            bounded(labels)?;
            record.labels.clone_from(labels);
            format!("label node {node}")
        }
        Command::Schedule { node, scheduling } => {
            let Some(record) = next.nodes.get_mut(node) else {
                return Err(CommandError::UnknownNode(node.clone()));
            };
            record.scheduling = *scheduling;
            match scheduling {
                Scheduling::Open => format!("uncordon node {node}"),
                Scheduling::Cordoned => format!("cordon node {node}"),
                Scheduling::Drained => format!("drain node {node}"),
            }
        }
        Command::Move { node, to } => offer(&mut next, node, *to, places, now, mint)?,
        Command::SetSecret { secret, sealed } => secrets::set(&mut next, secret, sealed, now),
        Command::Rotate {
            module,
            node,
            overlap,
        } => rotation::force(&mut next, module, node.as_ref(), *overlap, now, mint)?,
        Command::RemoveSecret { secret } => secrets::remove(&mut next, secret)?,
    };
    settle_instances(&mut next, &standing(records), now, mint)?;
    secrets::fit(records, &next)?;
    next.revision = next.revision.next();
    Ok((next, what))
}

fn apply(
    records: &mut Records,
    declared: &Declared,
    if_revision: Option<Revision>,
) -> Result<String, CommandError> {
    if let Some(expected) = if_revision
        && expected != records.revision
    {
        return Err(CommandError::Conflict {
            expected,
            found: records.revision,
        });
    }
    let errors = declared.check();
    if !errors.is_empty() {
        return Err(CommandError::Declared(errors));
    }
    secrets::all_set(records, declared)?;
    // An assignment by hand outlives an apply unless the files say something new about that seat, or it names a module
    // that can no longer hold it.
    let before = &records.declared;
    records.seats.retain(|seat, record| {
        let same = before.seats.get(seat) == declared.seats.get(seat);
        let able = |module| declared.can_hold(module, seat).is_ok();
        same && declared.seats.contains_key(seat) && record.assigned.as_ref().is_none_or(able)
    });
    records.declared = declared.clone();
    Ok(format!(
        "apply {} modules, {} seats",
        declared.modules.len(),
        declared.seats.len()
    ))
}

fn assign(
    records: &mut Records,
    seat: &SeatName,
    holder: Option<&ModuleName>,
) -> Result<String, CommandError> {
    let declared = &records.declared;
    if !declared.seats.contains_key(seat) {
        return Err(CommandError::UnknownSeat(seat.clone()));
    }
    if let Some(module) = holder {
        declared
            .can_hold(module, seat)
            .map_err(|why| CommandError::CannotHold {
                seat: seat.clone(),
                module: module.clone(),
                why,
            })?;
    }
    let assigned = holder.cloned();
    if declared.seats.get(seat).map(|spec| &spec.holder) == Some(&assigned) {
        // What the files say anyway overrides nothing.
        records.seats.remove(seat);
    } else {
        records.seats.insert(
            seat.clone(),
            SeatRecord {
                assigned,
                by: mesh_model::Assigner::Operator,
            },
        );
    }
    Ok(match holder {
        Some(module) => format!("assign seat {seat} to {module}"),
        None => format!("release seat {seat}"),
    })
}

/// Offers a node another bus; one that is offered another and is to stay where it is loses the offer.
fn offer(
    records: &mut Records,
    node: &NodeName,
    to: BusKind,
    places: &Places,
    now: Timestamp,
    mint: &mut impl Mint,
) -> Result<String, CommandError> {
    let Some(record) = records.nodes.get_mut(node) else {
        return Err(CommandError::UnknownNode(node.clone()));
    };
    if !places.contains_key(&to) {
        return Err(CommandError::NoBus(to));
    }
    match &record.moving {
        Some(Moving::Leaving { .. }) => return Err(CommandError::Moving(node.clone(), record.bus)),
        Some(Moving::Proving { .. }) if record.bus == to => {
            record.moving = None;
            return Ok(format!("keep node {node} on {to}"));
        }
        Some(Moving::Proving { to, .. }) => return Err(CommandError::Moving(node.clone(), *to)),
        None if record.bus == to => return Err(CommandError::OnThatBus(node.clone(), to)),
        None => {}
    }
    let whom = Principal::Node(node.clone());
    let Minted { key, credential } = mint.mint(&whom, to, &record.box_key)?;
    record.moving = Some(Moving::Proving {
        to,
        key,
        credential,
        since: now,
    });
    Ok(format!("offer node {node} to move to {to}"))
}

fn create_token(
    records: &mut Records,
    id: &TokenId,
    token: &TokenRecord,
) -> Result<String, CommandError> {
    if records.tokens.contains_key(id) {
        return Err(CommandError::TokenExists(id.clone()));
    }
    let taken = records.tokens.values().any(|other| other.key == token.key)
        || records.nodes.values().any(|node| node.key == token.key);
    if taken {
        return Err(CommandError::KeyInUse(id.clone()));
    }
    if token.rejoin
        && let Some(node) = &token.node
        && !records.nodes.contains_key(node)
    {
        return Err(CommandError::UnknownNode(node.clone()));
    }
    bounded(&token.labels)?;
    records.tokens.insert(id.clone(), token.clone());
    Ok(match (&token.node, token.rejoin) {
        (Some(node), true) => format!("create token {id} for node {node} to rejoin"),
        (Some(node), false) => format!("create token {id} for node {node}"),
        (None, _) => format!("create token {id}"),
    })
}

fn bounded(labels: &Labels) -> Result<(), CommandError> {
    labels_too_large(labels).map_or(Ok(()), |problem| Err(CommandError::Labels(problem)))
}
