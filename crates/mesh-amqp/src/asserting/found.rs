//! What a broker holds.

use mesh_bus::BusError;
use mesh_derive::topology::BrokerVersion;
use serde_json::{Value, json};

use crate::definitions::{Document, set};
use crate::management::{Management, part};

/// Everything a broker holds, and what it is.
pub(crate) struct Found {
    pub(crate) document: Document,
    pub(crate) version: BrokerVersion,
}

impl Found {
    /// Reads it. What a broker holds beside the virtual host is no concern of the mesh's, and a list of it may fail for
    /// what others are doing there just now.
    pub(crate) async fn read(management: &Management, vhost: &str) -> Result<Self, BusError> {
        let at = part(vhost);
        let there = management
            .get(&format!("/api/vhosts/{at}?columns=name"))
            .await?;
        let own = match &there {
            Some(_) => management.get(&format!("/api/definitions/{at}")).await?,
            None => management.get("/api/overview").await?,
        };
        let own = own.unwrap_or_default();
        let version = own
            .get("rabbit_version")
            .or_else(|| own.get("rabbitmq_version"))
            .and_then(Value::as_str);
        let version = version.unwrap_or_default().parse::<BrokerVersion>();
        let mut all = if there.is_some() {
            own.clone()
        } else {
            json!({})
        };
        let no_queues = all
            .get("queues")
            .and_then(Value::as_array)
            .is_none_or(Vec::is_empty);
        if there.is_some() && no_queues {
            // One told to keep no statistics leaves queues and their bindings out of its definitions.
            for section in ["queues", "bindings"] {
                let listed = management.get(&format!("/api/{section}/{at}")).await?;
                set(&mut all, section, listed.unwrap_or_else(|| json!([])));
            }
        }
        set(&mut all, "vhosts", json!(there.as_slice()));
        for (section, path) in [
            ("users", "/api/users".to_owned()),
            ("permissions", format!("/api/vhosts/{at}/permissions")),
            (
                "topic_permissions",
                format!("/api/vhosts/{at}/topic-permissions"),
            ),
        ] {
            let listed = management.get(&path).await?.unwrap_or_else(|| json!([]));
            set(&mut all, section, listed);
        }
        Ok(Self {
            document: Document::read(&all, vhost),
            version: version.map_err(|error| BusError::Away(error.to_string()))?,
        })
    }
}
