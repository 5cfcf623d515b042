//! What a principal is called where it logs in, and in `user_id`.

use mesh_model::{InstanceRef, Principal};

/// The name a principal logs in with. No name of the mesh's has a dot, so it is read back without a doubt.
///
/// A module itself has no credential: its instances do, and the `user_id` of what one sends says which.
pub fn user_name(principal: &Principal) -> String {
    match principal {
        Principal::Controller => "controller".to_owned(),
        Principal::Node(node) => format!("node.{node}"),
        Principal::Module(module) => format!("module.{module}"),
        Principal::Instance(InstanceRef { module, node }) => format!("module.{module}.{node}"),
        Principal::Joiner(token) => format!("joiner.{token}"),
    }
}

/// Who logs in with this name.
pub fn principal_of(user: &str) -> Option<Principal> {
    if user == "controller" {
        return Some(Principal::Controller);
    }
    match user.split_once('.')? {
        ("node", name) => name.parse().ok().map(Principal::Node),
        ("joiner", id) => id.parse().ok().map(Principal::Joiner),
        ("module", name) => match name.split_once('.') {
            None => name.parse().ok().map(Principal::Module),
            Some((module, node)) => Some(Principal::Instance(InstanceRef {
                module: module.parse().ok()?,
                node: node.parse().ok()?,
            })),
        },
        _ => None,
    }
}
