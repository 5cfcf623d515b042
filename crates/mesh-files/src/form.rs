//! The files as they are typed: every name still a text, with its place.

use std::collections::BTreeMap;

use mesh_model::Restart;
use serde::Deserialize;
use toml::Spanned;

/// A text and where it stands.
pub(crate) type Text = Spanned<String>;

/// `modules/NAME.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ManifestForm {
    pub(crate) module: ModuleForm,
    pub(crate) run: Spanned<RunForm>,
    #[serde(default)]
    pub(crate) events: EventsForm,
    #[serde(default)]
    pub(crate) seats: SeatsForm,
}

/// `[module]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ModuleForm {
    pub(crate) name: Text,
    pub(crate) release: String,
}

/// `[run]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RunForm {
    /// Needed; left open here so that a file that says `image` hears of that alone.
    pub(crate) command: Option<Spanned<Vec<String>>>,
    #[serde(default)]
    pub(crate) after: Vec<Text>,
    #[serde(default)]
    pub(crate) env: BTreeMap<Text, String>,
    #[serde(default)]
    pub(crate) restart: Restart,
}

/// `[events]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct EventsForm {
    pub(crate) emits: Vec<Text>,
    pub(crate) follows: Vec<Text>,
}

/// `[seats]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct SeatsForm {
    pub(crate) can_hold: Vec<Text>,
    pub(crate) sends_to: Vec<Text>,
}

/// `mesh.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MeshForm {
    pub(crate) mesh: MeshTable,
    #[serde(default)]
    pub(crate) seat: Vec<SeatForm>,
    #[serde(default)]
    pub(crate) place: Vec<PlaceForm>,
}

/// `[mesh]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MeshTable {
    pub(crate) name: Text,
}

/// `[[seat]]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SeatForm {
    pub(crate) name: Text,
    pub(crate) holder: Option<Text>,
}

/// `[[place]]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PlaceForm {
    pub(crate) module: Text,
    pub(crate) nodes: Option<Vec<Text>>,
    pub(crate) labels: Option<Spanned<BTreeMap<String, String>>>,
}
