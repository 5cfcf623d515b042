//! The files as they are typed: every name still a text, with its place.
//!
//! The published schemas are generated from these types (in tests, so that no binary carries what generates them). What
//! is said of a type or a field here is what an editor shows to whoever writes a file.

use std::collections::BTreeMap;

use mesh_model::{Network, Restart};
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

/// How it runs: as a plain process, which has a command, or as a container, which has an image.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "Run"))]
#[cfg_attr(test, schemars(extend("oneOf" = rules::one_of(&["command", "image"]))))]
#[cfg_attr(test, schemars(extend("dependentRequired" = rules::of_containers())))]
#[serde(deny_unknown_fields)]
pub(crate) struct RunForm {
    /// The program, looked up in PATH unless it is a path, then its arguments.
    #[serde(default)]
    #[cfg_attr(test, schemars(schema_with = "rules::command"))]
    pub(crate) command: Option<Spanned<Vec<String>>>,
    /// The container's image: registry.example/name:tag, or name@sha256:… to pin it.
    #[serde(default)]
    #[cfg_attr(test, schemars(schema_with = "rules::image"))]
    pub(crate) image: Option<Text>,
    /// Arguments in place of the image's own command; its entry point stays.
    #[serde(default)]
    #[cfg_attr(test, schemars(schema_with = "rules::args"))]
    pub(crate) args: Option<Spanned<Vec<String>>>,
    /// Ports of the host that lead to ports of the container: `HOST:CONTAINER`, `ADDRESS:HOST:CONTAINER`, with `/udp` behind
    /// it where it is not TCP.
    #[serde(default)]
    #[cfg_attr(test, schemars(schema_with = "rules::ports"))]
    pub(crate) ports: Option<Spanned<Vec<Text>>>,
    /// What of the host the container sees: `NAME:/PATH` for a volume the engine keeps, `/HOST/PATH:/PATH`, with `:ro`
    /// behind it where it is only read.
    #[serde(default)]
    #[cfg_attr(test, schemars(schema_with = "rules::volumes"))]
    pub(crate) volumes: Option<Spanned<Vec<Text>>>,
    /// The container's network: one of its own, or the host's.
    #[serde(default)]
    #[cfg_attr(test, schemars(schema_with = "rules::network"))]
    pub(crate) network: Option<Spanned<Network>>,
    /// What the container may use at most.
    #[serde(default)]
    #[cfg_attr(test, schemars(with = "ResourcesForm"))]
    pub(crate) resources: Option<Spanned<Keyed<ResourcesForm>>>,
    /// The secret, USER:PASSWORD, with which the image's registry is asked. The module is not handed it.
    #[serde(default)]
    #[cfg_attr(test, schemars(schema_with = "rules::secret"))]
    pub(crate) pull_secret: Option<Text>,
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
    /// How it is known that it does its work. Without this it does while it runs.
    #[serde(default)]
    #[cfg_attr(test, schemars(with = "HealthForm"))]
    pub(crate) health: Option<Spanned<Keyed<HealthForm>>>,
    /// Secrets it is handed, each in a file that `NAME_FILE` names; their values are set with `meshctl secret set`.
    #[serde(default)]
    #[cfg_attr(test, schemars(schema_with = "rules::secrets"))]
    pub(crate) secrets: Vec<Text>,
}

/// What a container may use at most.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "Resources"))]
#[serde(deny_unknown_fields)]
pub(crate) struct ResourcesForm {
    /// Memory: a number and KiB, MiB or GiB (or kB, MB, GB). At least 6MiB.
    #[serde(default)]
    #[cfg_attr(test, schemars(schema_with = "rules::memory"))]
    pub(crate) memory: Option<Text>,
    /// Processors; 0.5 is half of one.
    #[serde(default)]
    #[cfg_attr(test, schemars(schema_with = "rules::cpus"))]
    pub(crate) cpus: Option<Spanned<f64>>,
}

/// How it is known that a module does its work: by one question, asked again and again.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "Health"))]
#[cfg_attr(test, schemars(extend("oneOf" = rules::one_of(&["http", "tcp", "exec"]))))]
#[serde(deny_unknown_fields)]
pub(crate) struct HealthForm {
    /// This URL of plain HTTP answers with a status of 200 to 399, asked from the host.
    #[serde(default)]
    #[cfg_attr(test, schemars(schema_with = "rules::http"))]
    pub(crate) http: Option<Text>,
    /// Something listens at HOST:PORT, asked from the host.
    #[serde(default)]
    #[cfg_attr(test, schemars(schema_with = "rules::tcp"))]
    pub(crate) tcp: Option<Text>,
    /// This command ends with success, inside the container or beside the process.
    #[serde(default)]
    #[cfg_attr(test, schemars(schema_with = "rules::command"))]
    pub(crate) exec: Option<Spanned<Vec<String>>>,
    /// The time between two askings, which each has to answer as well: a number and ms, s, m or h. 5s unless said.
    #[serde(default)]
    #[cfg_attr(test, schemars(schema_with = "rules::time"))]
    pub(crate) every: Option<Text>,
    /// The time after a start within which it has to be healthy for the first time. 30s unless said.
    #[serde(default)]
    #[cfg_attr(test, schemars(schema_with = "rules::time"))]
    pub(crate) within: Option<Text>,
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
#[cfg_attr(test, schemars(extend("dependentRequired" = rules::needs("grace", "failover"))))]
#[serde(deny_unknown_fields)]
pub(crate) struct SeatForm {
    /// The seat's name.
    #[cfg_attr(test, schemars(schema_with = "rules::name"))]
    pub(crate) name: Text,
    /// The module that holds it; without one its work waits.
    #[serde(default)]
    #[cfg_attr(test, schemars(schema_with = "rules::name"))]
    pub(crate) holder: Option<Text>,
    /// Whether the next module that can hold it does, once every node of its holder has been lost for `grace`.
    #[serde(default)]
    #[cfg_attr(test, schemars(with = "bool"))]
    pub(crate) failover: Option<bool>,
    /// How long that is: a number and ms, s, m or h. 30s unless said.
    #[serde(default)]
    #[cfg_attr(test, schemars(schema_with = "rules::time"))]
    pub(crate) grace: Option<Text>,
}

/// Where one module runs: either on nodes by name, or on all that have some labels.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "Place"))]
#[cfg_attr(test, schemars(extend("oneOf" = rules::one_of(&["nodes", "labels"]))))]
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
    /// On how many of these nodes, spread over those with the fewest modules; on all of them unless said.
    #[serde(default)]
    #[cfg_attr(test, schemars(schema_with = "rules::count"))]
    pub(crate) count: Option<Spanned<i64>>,
}
