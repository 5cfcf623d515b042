//! The rules of values that no Rust type of a form says: patterns, lengths and counts.
//!
//! The numbers are those of `mesh-model`; the tests beside this hold them together at each bound.

use mesh_model::{Network, Restart};
use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

/// One part of a name.
const LABEL: &str = "[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?";
/// The controller's own name, and those of devices on some file systems.
const RESERVED: &str = "(controller|con|nul|prn|aux|com[1-9]|lpt[1-9])";

/// A label: a token's part of a subject.
pub(crate) fn label(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "minLength": 1, "maxLength": 63, "pattern": format!("^{LABEL}$")})
}

/// A label that is not reserved.
pub(crate) fn name(generator: &mut SchemaGenerator) -> Schema {
    let mut schema = label(generator);
    schema.insert(
        "not".to_owned(),
        json!({"pattern": format!("^{RESERVED}$")}),
    );
    schema
}

/// For people, as one line.
pub(crate) fn release(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "maxLength": 128, "pattern": STEERS_NOTHING})
}

/// A program and its arguments.
pub(crate) fn command(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "minItems": 1,
        "maxItems": 256,
        "prefixItems": [{"type": "string", "pattern": NO_NUL, "minLength": 1, "maxLength": 16384}],
        "items": {"type": "string", "pattern": NO_NUL, "maxLength": 16384},
        "examples": [["mailer", "--verbose"]],
    })
}

/// Modules that start before.
pub(crate) fn after(generator: &mut SchemaGenerator) -> Schema {
    set(&name(generator), 256)
}

/// Names and values.
pub(crate) fn env(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": 256,
        "propertyNames": {"pattern": "^[^=\\u0000]+$", "not": {"pattern": "^MESH_"}},
        "additionalProperties": {"type": "string", "pattern": NO_NUL, "maxLength": 16384},
    })
}

/// Every word there is for it, by the type itself.
pub(crate) fn restart(_: &mut SchemaGenerator) -> Schema {
    let word = |restart: Restart| match restart {
        Restart::Always | Restart::OnFailure | Restart::Never => json!(restart),
    };
    let words = [Restart::Always, Restart::OnFailure, Restart::Never].map(word);
    json_schema!({"enum": words})
}

/// Events of one's own.
pub(crate) fn emits(_: &mut SchemaGenerator) -> Schema {
    let event = json!({
        "type": "string",
        "minLength": 1,
        "maxLength": 127,
        "pattern": format!("^{LABEL}(\\.{LABEL})*$"),
        "not": {"const": "announced"},
    });
    list(&event, 1000)
}

/// Events of others.
pub(crate) fn follows(_: &mut SchemaGenerator) -> Schema {
    let event = json!({
        "type": "string",
        "maxLength": 63 + 1 + 127,
        "pattern": format!("^{LABEL}(\\.{LABEL})+$"),
        "not": {"pattern": format!("^{RESERVED}\\.")},
    });
    list(&event, 1000)
}

/// Seats by name.
pub(crate) fn seats(generator: &mut SchemaGenerator) -> Schema {
    set(&name(generator), 256)
}

/// Nodes by name.
pub(crate) fn nodes(generator: &mut SchemaGenerator) -> Schema {
    set(&name(generator), 10_000)
}

/// Names and values of labels.
pub(crate) fn labels(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": 64,
        "propertyNames": {"maxLength": 256},
        "additionalProperties": {"type": "string", "maxLength": 256},
    })
}

/// Exactly one of these keys.
pub(crate) fn one_of(keys: &[&str]) -> Value {
    let alone = keys.iter().map(|key| json!({"required": [key]}));
    Value::Array(alone.collect())
}

/// A key that says nothing without another.
pub(crate) fn needs(key: &str, other: &str) -> Value {
    json!({key: [other]})
}

/// What only a container has, and so says nothing without an image.
pub(crate) fn of_containers() -> Value {
    let keys = crate::run::OF_CONTAINERS.iter();
    Value::Object(
        keys.map(|(key, _)| ((*key).to_owned(), json!(["image"])))
            .collect(),
    )
}

/// The reference of an image.
pub(crate) fn image(_: &mut SchemaGenerator) -> Schema {
    let registry = "([A-Za-z0-9.:-]+/)?";
    let path = "[a-z0-9]([a-z0-9._/-]*[a-z0-9])?";
    let tag = "(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?";
    let digest = "(@sha256:[0-9a-f]{64})?";
    json_schema!({
        "type": "string",
        "maxLength": 512,
        "pattern": format!("^{registry}{path}{tag}{digest}$"),
        "examples": ["registry.example/mailer:1.4.0"],
    })
}

/// Arguments of an image.
pub(crate) fn args(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": 256,
        "items": {"type": "string", "pattern": NO_NUL, "maxLength": 16384},
    })
}

/// Ports of the host that lead to ports of a container.
pub(crate) fn ports(_: &mut SchemaGenerator) -> Schema {
    let address = "([0-9.]+|\\[[0-9a-fA-F:.]+\\])";
    let pattern = format!("^({address}:)?[0-9]{{1,5}}:[0-9]{{1,5}}(/(tcp|udp))?$");
    let port = json!({"type": "string", "pattern": pattern, "examples": ["8025:25"]});
    list(&port, 256)
}

/// What of the host a container sees.
pub(crate) fn volumes(_: &mut SchemaGenerator) -> Schema {
    let source = "(/[^:\\u0000]+|[A-Za-z0-9][A-Za-z0-9_.-]{0,127})";
    let pattern = format!("^{source}:/[^:\\u0000]+(:(ro|rw))?$");
    let volume = json!({"type": "string", "pattern": pattern, "examples": ["data:/var/lib/data"]});
    list(&volume, 256)
}

/// Every word there is for it, by the type itself.
pub(crate) fn network(_: &mut SchemaGenerator) -> Schema {
    let word = |network: Network| match network {
        Network::Bridge | Network::Host => json!(network),
    };
    let words = [Network::Bridge, Network::Host].map(word);
    json_schema!({"enum": words})
}

/// A secret by name.
pub(crate) fn secret(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "pattern": "^[A-Z][A-Z0-9_]{0,62}$",
        "not": {"pattern": "^MESH_"},
        "examples": ["SMTP_PASSWORD"],
    })
}

/// Secrets by name.
pub(crate) fn secrets(generator: &mut SchemaGenerator) -> Schema {
    set(&secret(generator), 64)
}

/// Bytes of memory.
pub(crate) fn memory(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "pattern": "^[0-9]{1,9}([KMG]iB|[kMG]B)$", "examples": ["256MiB"]})
}

/// Processors.
pub(crate) fn cpus(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "number", "minimum": 0.001, "maximum": 1024, "examples": [0.5]})
}

/// A time.
pub(crate) fn time(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "pattern": "^[0-9]{1,9}(ms|s|m|h)$", "examples": ["30s"]})
}

/// A URL that can be asked.
pub(crate) fn http(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "pattern": "^http://[^\\s]+$",
        "maxLength": 16384,
        "examples": ["http://127.0.0.1:8025/health"],
    })
}

/// A place something may listen at.
pub(crate) fn tcp(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "pattern": "^[^\\s]+:[0-9]{1,5}$",
        "maxLength": 16384,
        "examples": ["127.0.0.1:8025"],
    })
}

/// On how many nodes.
pub(crate) fn count(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "integer", "minimum": 1, "maximum": 10_000})
}

/// Names, each once.
fn set(name: &Schema, limit: usize) -> Schema {
    list(name.as_value(), limit)
}

fn list(item: &Value, limit: usize) -> Schema {
    json_schema!({"type": "array", "uniqueItems": true, "maxItems": limit, "items": item})
}

/// A text that can be handed to a process.
const NO_NUL: &str = "^[^\\u0000]*$";
/// A text in which nothing steers a terminal or turns the direction of writing.
const STEERS_NOTHING: &str =
    r"^[^\u0000-\u001F\u007F-\u009F\u200E\u200F\u2028-\u202E\u2066-\u2069]*$";
