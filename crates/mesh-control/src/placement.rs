//! From the records: under which credential a module runs where it runs, and so what each node is told.

use std::collections::BTreeMap;

use mesh_model::{
    BoxPublicKey, BusKind, BusPlace, CredentialLife, Declaration, Generation, Home, InstanceRecord,
    Manifest, Moving, NodeName, NodeRecord, Offer, Principal, PublicKey, Records, Sealed,
    Timestamp, Workload,
};

use crate::secrets;
use crate::spread::{Standing, placed};

/// Makes credentials. The core does not: it has no randomness, and a secret half must not pass through it unsealed.
pub trait Mint {
    /// A new credential for an instance, or for a node that is to move to this bus, its secret half sealed to the node's
    /// key.
    fn mint(
        &mut self,
        whom: &Principal,
        bus: BusKind,
        sealed_to: &BoxPublicKey,
    ) -> Result<Minted, MintError>;

    /// What was sealed to the controller, sealed to a node's key, for an instance on it.
    fn reseal(
        &mut self,
        whom: &Principal,
        sealed: &Sealed,
        to: &BoxPublicKey,
    ) -> Result<Sealed, MintError>;
}

/// A credential just made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Minted {
    /// The public half.
    pub key: PublicKey,
    /// The secret half, sealed.
    pub credential: Sealed,
}

/// A key nothing can be sealed to, or a secret that does not open.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("nothing can be sealed for {whom}: {why}")]
pub struct MintError {
    /// For whom.
    pub whom: Principal,
    /// Why not, and what to do.
    pub why: String,
}

/// Gives every placed module a credential on each of its nodes, and takes the others away. `standing` is where modules were
/// until now.
pub(crate) fn settle_instances(
    records: &mut Records,
    standing: &Standing,
    now: Timestamp,
    mint: &mut impl Mint,
) -> Result<(), MintError> {
    let wanted = placed(records, standing);
    records
        .instances
        .retain(|instance, _| wanted.contains(instance));
    for instance in wanted {
        let Some(node) = records.nodes.get(&instance.node) else {
            continue;
        };
        let current = records.instances.get(&instance);
        let good =
            |record: &InstanceRecord| record.sealed_to == node.box_key && record.bus == node.bus;
        if current.is_some_and(good) {
            continue;
        }
        let (bus, sealed_to) = (node.bus, node.box_key.clone());
        let whom = Principal::Instance(instance.clone());
        let Minted { key, credential } = mint.mint(&whom, bus, &sealed_to)?;
        records.instances.insert(
            instance,
            InstanceRecord {
                bus,
                key,
                credential,
                sealed_to,
                secrets: [].into(),
                life: CredentialLife {
                    made: Some(now),
                    ..CredentialLife::default()
                },
            },
        );
    }
    secrets::hand_out(records, mint)
}

/// The declarations that differ from those before, each at its next generation. A node that was never told anything is
/// told that it runs nothing: its silence would look like a lost node. `joined` is told in any case: another host may
/// stand behind the name, and what the one before said is not about it. One that leaves a bus is told nothing new: its
/// modules have authority nowhere.
pub(crate) fn declarations(
    records: &Records,
    places: &Places,
    before: &BTreeMap<NodeName, Declaration>,
    joined: Option<&NodeName>,
) -> Vec<Declaration> {
    let mut of_node: BTreeMap<&NodeName, Vec<Workload>> = BTreeMap::new();
    for (instance, credential) in &records.instances {
        if let Some(manifest) = records.declared.modules.get(&instance.module) {
            let workloads = of_node.entry(&instance.node).or_default();
            workloads.push(workload(manifest, credential));
        }
    }
    records
        .nodes
        .iter()
        .filter_map(|(node, record)| {
            let home = home(record, places)?;
            let workloads = of_node.remove(node).unwrap_or_default();
            let last = before.get(node);
            let current = last.is_some_and(|last| {
                last.workloads == workloads
                    && last.home == home
                    && last.generation.incarnation >= records.incarnation
                    && joined != Some(node)
            });
            let generation = last.map_or_else(
                || first(records),
                |last| last.generation.next(records.incarnation),
            );
            (!current).then(|| Declaration {
                node: node.clone(),
                generation,
                workloads,
                home,
            })
        })
        .collect()
}

/// How hosts reach each bus there is.
pub type Places = BTreeMap<BusKind, BusPlace>;

/// Where a node is told that it is at home; nothing while it leaves a bus.
fn home(record: &NodeRecord, places: &Places) -> Option<Home> {
    match &record.moving {
        Some(Moving::Leaving { .. }) => None,
        Some(Moving::Proving { to, credential, .. }) => {
            // A bus that is there no more is no offer.
            let offer = places.get(to).map(|place| Offer {
                bus: *to,
                place: place.clone(),
                credential: credential.clone(),
            });
            Some(offer.map_or(Home::On(record.bus), |offer| Home::Offered(Box::new(offer))))
        }
        None if places.len() > 1 => Some(Home::On(record.bus)),
        None => Some(Home::Here),
    }
}

/// The first generation of a node. A node of that name may have been removed in this incarnation, and whoever remembers
/// what it was told must find this newer: every declaration is made by a change of its own, so that no counter passes
/// the revision.
fn first(records: &Records) -> Generation {
    Generation {
        incarnation: records.incarnation,
        counter: records.revision.0,
    }
}

fn workload(manifest: &Manifest, credential: &InstanceRecord) -> Workload {
    let container = manifest.run.container();
    let pull_secret = container.and_then(|container| container.pull_secret.as_ref());
    Workload {
        module: manifest.module.clone(),
        release: manifest.release.clone(),
        run: manifest.run.clone(),
        after: manifest.after.clone(),
        env: manifest.env.clone(),
        restart: manifest.restart,
        key: credential.key.clone(),
        credential: credential.credential.clone(),
        health: manifest.health.clone(),
        secrets: manifest
            .secrets
            .iter()
            .filter_map(|name| {
                let handed = credential.secrets.get(name)?;
                Some((name.clone(), handed.clone()))
            })
            .collect(),
        pull_secret: pull_secret.and_then(|name| credential.secrets.get(name).cloned()),
        accepts: credential.life.accepts.clone(),
    }
}
