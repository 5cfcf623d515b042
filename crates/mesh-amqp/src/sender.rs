//! Who sent a message: whom its key names, and only if the broker vouches that he was logged in.

use mesh_derive::subject::{Heard, heard};
use mesh_derive::topology::whose_login;
use mesh_model::{InstanceRef, ModuleName, Principal, Subject};

/// Whether `user`, whom the broker holds against the login, is the sender this subject names. A routing key alone is no
/// proof on a broker before 4.0.3, which lets one publish under a second key it holds against nothing.
pub(crate) fn proven(subject: &Subject, user: Option<&str>, users: &str) -> bool {
    let Some(who) = user.and_then(|user| whose_login(users, user)) else {
        return false;
    };
    match heard(subject) {
        Some(Heard::Report(node) | Heard::Heartbeat(node)) => who == Principal::Node(node),
        Some(Heard::Enrolment(token)) => who == Principal::Joiner(token),
        Some(Heard::Event(event)) => is_instance_of(&who, &event.module),
        Some(Heard::Work(_, sender)) => is_instance_of(&who, &sender),
        None => false,
    }
}

fn is_instance_of(who: &Principal, module: &ModuleName) -> bool {
    matches!(who, Principal::Instance(InstanceRef { module: of, .. }) if of == module)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_its_senders_only_if_the_broker_says_so_too() {
        for (subject, user, expected) in [
            ("mesh.control.report.a", Some("h.node.a"), true),
            ("mesh.control.report.a", Some("h.node.b"), false),
            ("mesh.control.report.a", Some("node.a"), false),
            ("mesh.control.report.a", None, false),
            ("mesh.heartbeat.a", Some("h.node.a"), true),
            ("mesh.control.enrol.t1", Some("h.joiner.t1"), true),
            ("mesh.control.enrol.t1", Some("h.node.t1"), false),
            ("mesh.mod.shop.sold", Some("h.module.shop.a"), true),
            ("mesh.mod.shop.sold", Some("h.module.other.a"), false),
            ("mesh.mod.shop.sold", Some("h.controller"), false),
            ("mesh.seat.desk.shop", Some("h.module.shop.b"), true),
            ("mesh.seat.desk.shop", Some("h.module.desk.b"), false),
            ("mesh.node.a.declare", Some("h.node.a"), false),
        ] {
            let subject = Subject::new(subject).unwrap();
            assert_eq!(proven(&subject, user, "h."), expected, "{subject} {user:?}");
        }
    }
}
