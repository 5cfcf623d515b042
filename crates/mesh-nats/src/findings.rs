//! What an operator should know of a server: what it promises, and what it does not.

use async_nats::ServerInfo;
use mesh_bus::Finding;
use serde_json::Value;

use crate::authority::Authority;
use crate::connect::Connection;

/// Everything that can be told from here.
pub(crate) async fn findings(
    connection: &Connection,
    authority: &Authority,
    replicas: u8,
) -> Vec<Finding> {
    let mut found = Vec::new();
    if let Some(info) = connection.client().try_server_info() {
        found.extend(of_server(&info));
    }
    found.push(of_replicas(replicas));
    found.push(match authority {
        Authority::Files { reload, .. } => match reload.server().await {
            Ok(server) => of_sync(&server),
            Err(_) => unseen_sync(),
        },
        Authority::None => unseen_sync(),
    });
    found
}

fn of_server(info: &ServerInfo) -> [Finding; 2] {
    [
        note(format!(
            "the server {} is version {}",
            info.server_name, info.version
        )),
        Finding {
            warning: !info.tls_required,
            text: if info.tls_required {
                "connections are encrypted".to_owned()
            } else {
                "the server takes connections that are not encrypted: give it a certificate unless it listens on loopback only".to_owned()
            },
        },
    ]
}

fn of_replicas(replicas: u8) -> Finding {
    note(match replicas {
        0 | 1 => "each stream has one copy: a server whose disk is lost takes its queues with it"
            .to_owned(),
        n => format!("each stream has {n} copies"),
    })
}

/// A server confirms a message before it is on disk, unless it syncs always (nats-server option `sync_interval`).
fn of_sync(server: &Value) -> Finding {
    let jetstream = server.pointer("/jetstream/config");
    let field = |name| jetstream.and_then(|config| config.get(name));
    let always = field("sync_always").and_then(Value::as_bool) == Some(true);
    let interval = field("sync_interval").and_then(Value::as_u64);
    match interval {
        _ if always => note("the server has each message on disk before it confirms it".to_owned()),
        // The server's own default, and a choice: said, so that nobody assumes otherwise.
        Some(nanos) => note(format!(
            "a power cut of the server's machine may lose what it confirmed in the last {} s; `sync = \"always\"` in \
             [bus.nats] is safer and slower (a server of your own: `sync_interval: always`)",
            nanos / 1_000_000_000
        )),
        None => unseen_sync(),
    }
}

fn unseen_sync() -> Finding {
    note("how often the server syncs to disk cannot be seen from here; unless it says `sync_interval: always`, a power cut may lose what it confirmed in the last two minutes".to_owned())
}

fn note(text: String) -> Finding {
    Finding {
        warning: false,
        text,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn how_long_a_server_may_take_to_sync_is_said() {
        for (config, said) in [
            (
                json!({ "sync_always": true, "sync_interval": 120_000_000_000_u64 }),
                "before it confirms",
            ),
            (
                json!({ "sync_interval": 120_000_000_000_u64 }),
                "the last 120 s",
            ),
            (json!({}), "cannot be seen"),
        ] {
            let server = json!({ "jetstream": { "config": config } });
            assert!(of_sync(&server).text.contains(said), "{server}");
        }
    }
}
