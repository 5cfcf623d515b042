//! Who sent a message: whom its key names, and only if the broker vouches that he was logged in.

use mesh_derive::subject::{self, Heard, carried, heard};
use mesh_derive::topology::whose_login;
use mesh_model::{InstanceRef, ModuleName, Principal, Subject};

/// Whether `user`, whom the broker holds against the login, is the sender this subject names. A routing key alone is no
/// proof on a broker before 4.0.3, which lets one publish under a second key it holds against nothing.
pub(crate) fn proven(subject: &Subject, user: Option<&str>, users: &str) -> bool {
    let Some(who) = user.and_then(|user| whose_login(users, user)) else {
        return false;
    };
    match heard(subject) {
        Some(Heard::Report(node) | Heard::Heartbeat(node) | Heard::Log(node)) => {
            who == Principal::Node(node)
        }
        Some(Heard::Enrolment(token)) => who == Principal::Joiner(token),
        Some(Heard::Event(event)) => is_instance_of(&who, &event.module),
        // The controller carries work from the other bus of a mesh of two.
        Some(Heard::Work(_, sender)) => {
            who == Principal::Controller || is_instance_of(&who, &sender)
        }
        None => false,
    }
}

/// What a message for this module says it is, if `user` is who may say so: an event that was carried from the other bus is
/// what it was there, and it is the controller that carries.
pub(crate) fn said(
    subject: Subject,
    user: Option<&str>,
    users: &str,
    to: &ModuleName,
) -> Option<Subject> {
    let Some((whom, event)) = carried(&subject) else {
        return proven(&subject, user, users).then_some(subject);
    };
    let who = user.and_then(|user| whose_login(users, user));
    (whom == *to && who == Some(Principal::Controller)).then(|| subject::event(&event))
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
            ("mesh.log.a", Some("h.node.a"), true),
            ("mesh.log.a", Some("h.node.b"), false),
            ("mesh.control.enrol.t1", Some("h.joiner.t1"), true),
            ("mesh.control.enrol.t1", Some("h.node.t1"), false),
            ("mesh.mod.shop.sold", Some("h.module.shop.a"), true),
            ("mesh.mod.shop.sold", Some("h.module.other.a"), false),
            ("mesh.mod.shop.sold", Some("h.controller"), false),
            ("mesh.seat.desk.shop", Some("h.module.shop.b"), true),
            ("mesh.seat.desk.shop", Some("h.module.desk.b"), false),
            ("mesh.seat.desk.shop", Some("h.controller.7f"), true),
            ("mesh.seat.desk.shop", Some("controller.7f"), false),
            (
                "mesh.carry.mailer.shop.sold",
                Some("h.controller.7f"),
                false,
            ),
            ("mesh.node.a.declare", Some("h.node.a"), false),
        ] {
            let subject = Subject::new(subject).unwrap();
            assert_eq!(proven(&subject, user, "h."), expected, "{subject} {user:?}");
        }
    }

    #[test]
    fn what_was_carried_is_what_it_was_if_the_controller_says_so_to_this_module() {
        let mailer = "mailer".parse().unwrap();
        let sold = Some("mesh.mod.shop.sold");
        for (subject, user, expected) in [
            ("mesh.carry.mailer.shop.sold", "h.controller.7f", sold),
            ("mesh.carry.mailer.shop.sold", "h.module.shop.a", None),
            ("mesh.carry.mailer.shop.sold", "h.module.mailer.a", None),
            ("mesh.carry.mailer.shop.sold", "controller.7f", None),
            ("mesh.carry.other.shop.sold", "h.controller.7f", None),
            ("mesh.carry.mailer.shop", "h.controller.7f", None),
            ("mesh.mod.shop.sold", "h.module.shop.a", sold),
            ("mesh.mod.shop.sold", "h.controller.7f", None),
        ] {
            let at = Subject::new(subject).unwrap();
            let heard = said(at, Some(user), "h.", &mailer);
            let heard = heard.as_ref().map(Subject::as_str);
            assert_eq!(heard, expected, "{subject} {user}");
        }
    }
}
