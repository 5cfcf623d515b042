//! Who would be in a mesh: whom the declared placements name, and whom the operator lists.

use std::collections::{BTreeMap, BTreeSet};

use mesh_derive::render::nats_conf::MESH_ACCOUNT;
use mesh_model::{
    BoxPublicKey, BusFacts, Declared, InstanceRecord, InstanceRef, Labels, NodeName, NodeRecord,
    Placement, Principal, PublicKey, Records, Sealed, Selector, Timestamp, TokenId, TokenRecord,
};

/// What is declared, and everybody who would have a credential.
#[derive(Debug)]
pub(crate) struct Cast {
    declared: Declared,
    principals: BTreeSet<Principal>,
}

impl Cast {
    /// Each node a placement names, each module on each of these, and whoever is listed. Files say nothing of a node's
    /// labels, so where a module is placed by labels the list says on which nodes it runs.
    pub(crate) fn of<'a>(
        mut declared: Declared,
        listed: impl Iterator<Item = &'a Principal>,
    ) -> Self {
        let mut principals: BTreeSet<Principal> = listed.cloned().collect();
        for (module, placement) in &mut declared.placements {
            if matches!(placement.on, Selector::Labels(_)) {
                let listed = principals.iter().filter_map(|it| match it {
                    Principal::Instance(it) if it.module == *module => Some(it.node.clone()),
                    _ => None,
                });
                *placement = Placement {
                    on: Selector::Nodes(listed.collect()),
                    count: None,
                };
            }
        }
        for (module, placement) in &declared.placements {
            let Selector::Nodes(nodes) = &placement.on else {
                continue;
            };
            for node in nodes {
                principals.insert(Principal::Node(node.clone()));
                principals.insert(Principal::Instance(InstanceRef {
                    module: module.clone(),
                    node: node.clone(),
                }));
            }
        }
        Self {
            declared,
            principals,
        }
    }

    /// The records of such a mesh. Who has no key gets one that is nobody's.
    pub(crate) fn records(&self, keys: &BTreeMap<Principal, PublicKey>) -> Records {
        let bus = BusFacts {
            domain: None,
            account: MESH_ACCOUNT.to_owned(),
        };
        let mut records = Records::new(self.declared.mesh.clone(), bus);
        records.declared = self.declared.clone();
        for (number, principal) in (0_u32..).zip(&self.principals) {
            let key = keys.get(principal).cloned();
            let key = key.unwrap_or_else(|| PublicKey::from_raw(filled(number)));
            match principal {
                Principal::Node(node) => add_node(&mut records, node, key),
                Principal::Instance(instance) => add_instance(&mut records, instance, key),
                Principal::Joiner(token) => add_token(&mut records, token, key),
                // The one is no record, the other has no credential.
                Principal::Controller | Principal::Module(_) => {}
            }
        }
        records
    }
}

/// Bytes that begin with a number.
fn filled(number: u32) -> [u8; 32] {
    let mut bytes = [0; 32];
    for (byte, digit) in bytes.iter_mut().zip(number.to_be_bytes()) {
        *byte = digit;
    }
    bytes
}

/// The key secrets are sealed to, where nothing is sealed: the same on every node.
fn box_key() -> BoxPublicKey {
    BoxPublicKey::from_raw([0; 32])
}

fn add_node(records: &mut Records, node: &NodeName, key: PublicKey) {
    let Ok(token) = TokenId::new("offline") else {
        return;
    };
    let record = NodeRecord {
        bus: mesh_model::BusKind::Nats,
        moving: None,
        key,
        box_key: box_key(),
        labels: Labels::new(),
        token,
        enrolled: Timestamp::from_millis(0),
        scheduling: mesh_model::Scheduling::Open,
    };
    records.nodes.insert(node.clone(), record);
}

fn add_instance(records: &mut Records, instance: &InstanceRef, key: PublicKey) {
    let record = InstanceRecord {
        bus: mesh_model::BusKind::Nats,
        key,
        credential: Sealed(Vec::new()),
        sealed_to: box_key(),
        secrets: [].into(),
        life: mesh_model::CredentialLife::default(),
    };
    records.instances.insert(instance.clone(), record);
}

fn add_token(records: &mut Records, token: &TokenId, key: PublicKey) {
    let record = TokenRecord {
        bus: mesh_model::BusKind::Nats,
        key,
        expires: Timestamp::from_millis(0),
        node: None,
        labels: Labels::new(),
        rejoin: false,
        spent: None,
    };
    records.tokens.insert(token.clone(), record);
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// Everybody in the example's mesh, with these listed besides.
    fn everybody(listed: &[&str], change: impl FnOnce(&mut Declared)) -> BTreeSet<String> {
        let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/hello");
        let mut declared = mesh_files::load(&example).unwrap();
        change(&mut declared);
        let listed: Vec<Principal> = listed.iter().map(|it| it.parse().unwrap()).collect();
        let records = Cast::of(declared, listed.iter()).records(&BTreeMap::new());
        let plan = mesh_derive::derive(&records, &mesh_derive::Bounds::default());
        plan.users.values().map(ToString::to_string).collect()
    }

    fn place(declared: &mut Declared, on: &Selector) {
        for placement in declared.placements.values_mut() {
            placement.on = on.clone();
        }
    }

    #[test]
    fn whoever_a_placement_names_or_a_list_is_in_the_mesh() {
        let on = Selector::Nodes(["a".parse().unwrap()].into());
        let all = everybody(&["node/b", "joiner/t1"], |declared| place(declared, &on));
        for expected in ["node/a", "node/b", "joiner/t1"] {
            assert!(all.contains(expected), "{all:?}");
        }
        assert!(
            all.iter()
                .any(|it| it.starts_with("module/") && it.ends_with("@a")),
            "{all:?}"
        );
    }

    #[test]
    fn a_module_placed_by_labels_runs_where_it_is_listed() {
        let labels = [("role".to_owned(), "web".to_owned())].into();
        let on = Selector::Labels(labels);
        let module = everybody(&[], |_| {}).into_iter().find_map(|it| {
            let (module, _) = it.strip_prefix("module/")?.split_once('@')?;
            Some(module.to_owned())
        });
        let module = format!("module/{}@c", module.unwrap());
        let all = everybody(&["node/c", &module], |declared| place(declared, &on));
        assert_eq!(all, BTreeSet::from(["node/c".to_owned(), module]));
    }
}
