//! The files as they are typed: every name still a text, with its place.
//!
//! The published schemas are generated from these types (in tests, so that no binary carries what generates them). What
//! is said of a type or a field here is what an editor shows to whoever writes a file.

use std::collections::BTreeMap;

use mesh_model::Restart;
use serde::Deserialize;
use toml::Spanned;

use crate::keyed::Keyed;
#[cfg(test)]
use crate::schema::rules;

/// A text and where it stands.
pub(crate) type Text = Spanned<String>;

/// A module: how it runs, what it says and hears, which seats it may hold.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct ManifestForm {
    /// Who it is.
    #[cfg_attr(test, schemars(with = "ModuleForm"))]
    pub(crate) module: Keyed<ModuleForm>,
    /// How it runs.
    #[cfg_attr(test, schemars(with = "RunForm"))]
    pub(crate) run: Spanned<Keyed<RunForm>>,
    /// What it says and hears.
    #[serde(default)]
    #[cfg_attr(test, schemars(with = "EventsForm"))]
    pub(crate) events: Keyed<EventsForm>,
    /// The work it takes and gives.
    #[serde(default)]
    #[cfg_attr(test, schemars(with = "SeatsForm"))]
    pub(crate) seats: Keyed<SeatsForm>,
}

/// Who it is.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "Module"))]
#[serde(deny_unknown_fields)]
pub(crate) struct ModuleForm {
    /// The module's name: lower-case letters, digits and hyphens.
    #[cfg_attr(test, schemars(schema_with = "rules::name"))]
    pub(crate) name: Text,
    /// The release, for people and for reports; never interpreted.
    #[cfg_attr(test, schemars(schema_with = "rules::release"))]
    pub(crate) release: Text,
}

/// How it runs: a plain process.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "Run"))]
#[serde(deny_unknown_fields)]
pub(crate) struct RunForm {
    /// The program, looked up in PATH unless it is a path, then its arguments.
    // Needed; left open here so that a file that says `image` hears of that alone.
    #[cfg_attr(test, schemars(required, schema_with = "rules::command"))]
    pub(crate) command: Option<Spanned<Vec<String>>>,
    /// Modules of the same node that start before it.
    #[serde(default)]
    #[cfg_attr(test, schemars(schema_with = "rules::after"))]
    pub(crate) after: Vec<Text>,
    /// Environment of its process. Names beginning MESH_ are set by the mesh.
    #[serde(default)]
    #[cfg_attr(test, schemars(schema_with = "rules::env"))]
    pub(crate) env: BTreeMap<Text, String>,
    /// What happens when its process ends; with backoff and jitter.
    #[serde(default)]
    #[cfg_attr(test, schemars(schema_with = "rules::restart"))]
    pub(crate) restart: Restart,
}

/// What it says and hears.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "Events"))]
#[serde(deny_unknown_fields, default)]
pub(crate) struct EventsForm {
    /// Events of its own, without the module's name. "announced" needs no listing.
    #[cfg_attr(test, schemars(schema_with = "rules::emits"))]
    pub(crate) emits: Vec<Text>,
    /// Events it hears, each as MODULE.EVENT, by exact name.
    #[cfg_attr(test, schemars(schema_with = "rules::follows"))]
    pub(crate) follows: Vec<Text>,
}

/// The work it takes and gives.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "Seats"))]
#[serde(deny_unknown_fields, default)]
pub(crate) struct SeatsForm {
    /// Seats whose work it can do.
    #[cfg_attr(test, schemars(schema_with = "rules::seats"))]
    pub(crate) can_hold: Vec<Text>,
    /// Seats it sends work to.
    #[cfg_attr(test, schemars(schema_with = "rules::seats"))]
    pub(crate) sends_to: Vec<Text>,
}

/// The mesh: its name, its seats, and where its modules run.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct MeshForm {
    /// The mesh itself.
    #[cfg_attr(test, schemars(with = "MeshTable"))]
    pub(crate) mesh: Keyed<MeshTable>,
    /// Its seats: roles with a work queue each.
    #[serde(default)]
    #[cfg_attr(test, schemars(with = "Vec<SeatForm>"))]
    pub(crate) seat: Vec<Keyed<SeatForm>>,
    /// Where its modules run. A module that is not placed runs nowhere.
    #[serde(default)]
    #[cfg_attr(test, schemars(with = "Vec<PlaceForm>"))]
    pub(crate) place: Vec<Keyed<PlaceForm>>,
}

/// The mesh itself.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "Mesh"))]
#[serde(deny_unknown_fields)]
pub(crate) struct MeshTable {
    /// The mesh's name, for people.
    #[cfg_attr(test, schemars(schema_with = "rules::label"))]
    pub(crate) name: Text,
}

/// A seat: a role with a work queue.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "Seat"))]
#[serde(deny_unknown_fields)]
pub(crate) struct SeatForm {
    /// The seat's name.
    #[cfg_attr(test, schemars(schema_with = "rules::name"))]
    pub(crate) name: Text,
    /// The module that holds it; without one its work waits.
    #[serde(default)]
    #[cfg_attr(test, schemars(schema_with = "rules::name"))]
    pub(crate) holder: Option<Text>,
}

/// Where one module runs: either on nodes by name, or on all that have some labels.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "Place"))]
#[cfg_attr(test, schemars(extend("oneOf" = rules::one_of(["nodes", "labels"]))))]
#[serde(deny_unknown_fields)]
pub(crate) struct PlaceForm {
    /// The module.
    #[cfg_attr(test, schemars(schema_with = "rules::name"))]
    pub(crate) module: Text,
    /// Nodes, by name.
    #[serde(default)]
    #[cfg_attr(test, schemars(schema_with = "rules::nodes"))]
    pub(crate) nodes: Option<Vec<Text>>,
    /// Every node that has all of these labels.
    #[serde(default)]
    #[cfg_attr(test, schemars(schema_with = "rules::labels"))]
    pub(crate) labels: Option<Spanned<BTreeMap<String, String>>>,
}
