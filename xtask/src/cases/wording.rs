//! How a row words a method of AMQP 0-9-1, a permission, and what is required.

use anyhow::{Context, Result, bail};

use mesh_servers::rabbitmq::{Object, Operation, Permission, Requirement};

/// The methods that are not looked at by themselves, class by class.
const UNCHECKED: [(&str, &[&str]); 7] = [
    (
        "connection",
        &[
            "start",
            "start-ok",
            "secure",
            "secure-ok",
            "tune",
            "tune-ok",
            "open",
            "open-ok",
            "close",
            "close-ok",
            "blocked",
            "unblocked",
            "update-secret",
            "update-secret-ok",
        ],
    ),
    (
        "channel",
        &["open", "open-ok", "flow", "flow-ok", "close", "close-ok"],
    ),
    ("access", &["request", "request-ok"]),
    (
        "basic",
        &[
            "qos",
            "qos-ok",
            "cancel",
            "cancel-ok",
            "ack",
            "nack",
            "reject",
            "recover",
            "recover-ok",
            "recover-async",
            "return",
            "deliver",
            "get-ok",
            "get-empty",
            "consume-ok",
        ],
    ),
    (
        "tx",
        &[
            "select",
            "select-ok",
            "commit",
            "commit-ok",
            "rollback",
            "rollback-ok",
        ],
    ),
    ("confirm", &["select", "select-ok"]),
    (
        "queue",
        &[
            "declare-ok",
            "bind-ok",
            "unbind-ok",
            "purge-ok",
            "delete-ok",
        ],
    ),
];

/// The method of a row: `class.method`, then `passive`, `with ARGUMENT` or a word on what it is of.
pub(super) fn operation(text: &str) -> Result<Operation> {
    let plain = text.to_ascii_lowercase().replace(['_', '\''], "-");
    let (method, more) = plain.split_once(' ').unwrap_or((&plain, ""));
    let passive = more.contains("passive");
    let dead_letter =
        more.contains("dead-letter") || more.contains("dead letter") || more.contains("dlx");
    let alternate = more.contains("alternate");
    Ok(match method {
        "exchange.declare" if passive => Operation::DeclarePassive(Object::Exchange),
        "exchange.declare" => Operation::ExchangeDeclare { alternate },
        "exchange.delete" => Operation::ExchangeDelete,
        "exchange.bind" | "exchange.unbind" => Operation::ExchangeBind,
        "queue.declare" if passive => Operation::DeclarePassive(Object::Queue),
        "queue.declare" => Operation::QueueDeclare {
            queue: named_by(more),
            dead_letter,
        },
        "queue.delete" => Operation::QueueDelete,
        "queue.bind" | "queue.unbind" => Operation::QueueBind,
        "basic.consume" | "basic.get" if more.contains("reply-to") => Operation::Unchecked,
        "queue.purge" | "basic.consume" | "basic.get" => Operation::QueueRead,
        "basic.publish" | "publish"
            if more.contains("default") || (method == "publish" && more.contains("queue")) =>
        {
            Operation::Publish(Object::DefaultExchange)
        }
        "basic.publish" | "publish" => Operation::Publish(Object::Exchange),
        "dynamic" => Operation::DynamicReceiver,
        _ if is_unchecked(method) => Operation::Unchecked,
        _ => bail!("{text:?} is no method of AMQP 0-9-1 whose requirements are known"),
    })
}

fn named_by(more: &str) -> Object {
    let by_server = ["server-named", "server named", "generated", "unnamed"];
    if by_server.iter().any(|word| more.contains(word)) {
        Object::GeneratedQueue
    } else {
        Object::Queue
    }
}

fn is_unchecked(method: &str) -> bool {
    method.split_once('.').is_some_and(|(class, name)| {
        UNCHECKED
            .iter()
            .any(|(known, names)| *known == class && names.contains(&name))
            || (class == "exchange" && name.ends_with("-ok"))
    })
}

/// The permission of a row.
pub(super) fn permission(text: &str) -> Result<Permission> {
    let all = [Permission::Configure, Permission::Write, Permission::Read];
    let named = all.into_iter().find(|one| permission_word(*one) == text);
    named.with_context(|| format!("{text:?} is no permission"))
}

fn permission_word(permission: Permission) -> &'static str {
    match permission {
        Permission::Configure => "configure",
        Permission::Write => "write",
        Permission::Read => "read",
    }
}

fn object_words(object: Object) -> &'static str {
    match object {
        Object::Queue => "queue",
        Object::GeneratedQueue => "queue amq.gen-*",
        Object::DynamicQueue => "queue amq.dyn-*",
        Object::Exchange => "exchange",
        Object::DestinationExchange => "destination exchange",
        Object::SourceExchange => "source exchange",
        Object::AlternateExchange => "alternate exchange",
        Object::DeadLetterExchange => "dead letter exchange",
        Object::DefaultExchange => "exchange 'amq.default'",
    }
}

/// A requirement as a row words it.
pub(super) fn required(requirement: Requirement) -> String {
    match requirement {
        Requirement::On(permission, object) => {
            format!("{} {}", permission_word(permission), object_words(object))
        }
        Requirement::AnyOn(object) => {
            let object = object_words(object);
            format!("any one of configure|write|read on {object}")
        }
        Requirement::Topic(permission) => {
            let permission = permission_word(permission);
            format!("topic {permission} permission on the routing key when set")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_method_is_known_by_its_arguments_too() {
        let requires = |text: &str| -> Vec<String> {
            let requires = operation(text).unwrap().requires();
            requires.into_iter().map(required).collect()
        };
        assert_eq!(
            requires("queue.declare with dead-letter-exchange"),
            [
                "configure queue",
                "read queue",
                "write dead letter exchange"
            ]
        );
        assert_eq!(requires("basic.nack"), Vec::<String>::new());
        assert_eq!(
            requires("queue.declare passive"),
            ["any one of configure|write|read on queue"]
        );
        assert!(operation("basic.dance").is_err());
    }
}
