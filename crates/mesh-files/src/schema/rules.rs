//! The rules of values that no Rust type of a form says: patterns, lengths and counts.
//!
//! The numbers are those of `mesh-model`; the tests beside this hold them together at each bound.

use mesh_model::Restart;
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
    json_schema!({"type": "string", "maxLength": 128})
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
pub(crate) fn one_of(keys: [&str; 2]) -> Value {
    json!(keys.map(|key| json!({"required": [key]})))
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
