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

/// The name a principal logs in with on a broker that serves several meshes. Users belong to a broker and not to a
/// virtual host, so each mesh has something of its own that its users' names begin with.
pub fn login(mesh: &str, principal: &Principal) -> String {
    format!("{mesh}{}", user_name(principal))
}

/// Characters an epoch has in the name of its controller.
pub const EPOCH_LENGTH: usize = 16;

/// The name a controller logs in with for one epoch: the next takes another, and removes this one.
pub fn controller_login(mesh: &str, epoch: &str) -> String {
    format!("{}.{epoch}", login(mesh, &Principal::Controller))
}

/// Who of a mesh logs in with this name: the controller in any of its epochs.
pub fn whose_login(mesh: &str, user: &str) -> Option<Principal> {
    let name = user.strip_prefix(mesh)?;
    let controller = user_name(&Principal::Controller);
    match name.strip_prefix(controller.as_str()) {
        Some(epoch) if epoch.starts_with('.') => Some(Principal::Controller),
        _ => principal_of(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_is_read_back_by_its_own_mesh_only() {
        let node = Principal::Node("a".parse().unwrap());
        assert_eq!(login("home.", &node), "home.node.a");
        for (mesh, user, whose) in [
            ("home.", "home.node.a", Some(node.clone())),
            ("", "node.a", Some(node)),
            ("home.", "node.a", None),
            ("home.", "away.node.a", None),
            ("home.", "home.controller", Some(Principal::Controller)),
            (
                "home.",
                &controller_login("home.", "7f"),
                Some(Principal::Controller),
            ),
            ("home.", "home.controllers", None),
        ] {
            assert_eq!(whose_login(mesh, user), whose, "{user}");
        }
    }
}
