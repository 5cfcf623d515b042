//! What goes over the surface, besides what the core shows of itself.
//!
//! What asks for something knows all its fields: one left out often means everything or nobody, and a misspelt one would be
//! taken as left out.

use std::collections::BTreeMap;

use mesh_model::{
    BusKind, Declared, Filter, Generation, ModuleName, NodeName, Principal, QueueGroup, Revision,
    Scheduling, SecretName, Seq, Timestamp, TokenId,
};
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

/// Around every answer: what it is and in which version of the surface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Envelope<T> {
    /// `mesh/v1`.
    pub api_version: String,
    /// What it is.
    pub kind: String,
    /// What it says.
    #[serde(flatten)]
    pub body: T,
}

impl<T> Envelope<T> {
    /// An answer of the present version.
    pub fn new(kind: &str, body: T) -> Self {
        Self {
            api_version: "mesh/v1".to_owned(),
            kind: kind.to_owned(),
            body,
        }
    }
}

/// Asks what an apply would change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanRequest {
    /// The whole of what would be declared.
    pub declared: Declared,
}

/// Declares.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Apply {
    /// The whole of what is declared.
    pub declared: Declared,
    /// Only if nobody changed anything since.
    pub if_revision: Option<Revision>,
}

/// A change was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Applied {
    /// The revision it made.
    pub revision: Revision,
}

/// Gives a seat to a module, or takes it away.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Assign {
    /// The holder, or nobody.
    pub holder: Option<ModuleName>,
}

/// Sets a node's labels.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Label {
    /// All of them.
    pub labels: BTreeMap<String, String>,
}

/// Says whether modules are placed on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Schedule {
    /// Whether, and whether those that are there stay.
    pub scheduling: Scheduling,
}

/// Has a node go to another bus, or stay where it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Move {
    /// The bus.
    pub to: BusKind,
}

/// Has a module's credentials replaced.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Rotate {
    /// On this node only.
    #[serde(default)]
    pub node: Option<NodeName>,
    /// For how many milliseconds those before stay good; as the configuration says, where this does not.
    #[serde(default)]
    pub overlap_millis: Option<u64>,
}

/// Asks for a token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TokenRequest {
    /// Seconds it is good for.
    pub ttl_secs: u64,
    /// The only node it is for.
    pub node: Option<NodeName>,
    /// Labels of the node it makes.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// It replaces the key of the node it names.
    #[serde(default)]
    pub rejoin: bool,
    /// The bus it is good on. Unless said, that of the node that is to rejoin, or the one of the configuration.
    #[serde(default)]
    pub bus: Option<BusKind>,
}

/// A token, the only time it is shown.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenCreated {
    /// Its public id.
    pub id: TokenId,
    /// The whole of it. A secret.
    pub token: String,
    /// When it stops being good.
    pub expires: Timestamp,
}

impl std::fmt::Debug for TokenCreated {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TokenCreated")
            .field("id", &self.id)
            .field("expires", &self.expires)
            .finish_non_exhaustive()
    }
}

/// Tokens that may still be used, or were not long ago.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenList {
    /// In the order of their ids.
    pub items: Vec<TokenLine>,
}

/// One token, without what makes it one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TokenLine {
    /// Its public id.
    pub id: TokenId,
    /// When it stops being good.
    pub expires: Timestamp,
    /// The bus it is good on.
    pub bus: BusKind,
    /// The only node it is for.
    pub node: Option<NodeName>,
    /// The node it made.
    pub spent_by: Option<NodeName>,
}

/// The value of a secret on its way to the controller: bytes as they are, so that no reader of a form repeats a part of
/// them in an error. Wiped when dropped, and never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretValue(Zeroizing<Vec<u8>>);

impl SecretValue {
    /// Takes hold of it.
    pub fn new(bytes: Vec<u8>) -> Self {
        Self(Zeroizing::new(bytes))
    }

    /// The bytes themselves, for the one who seals or sends them.
    pub fn expose(&self) -> &[u8] {
        &self.0
    }
}

impl std::fmt::Debug for SecretValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SecretValue(redacted)")
    }
}

/// Secrets that are set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecretList {
    /// In the order of their names.
    pub items: Vec<SecretLine>,
}

/// One secret, without its value: that is shown to nobody.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SecretLine {
    /// What it is called.
    pub secret: SecretName,
    /// Which value it is: the revision that set it.
    pub version: u64,
    /// When it was set.
    pub set: Timestamp,
    /// The declared modules that name it.
    pub modules: Vec<ModuleName>,
}

/// Reports as they stand in the store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportList {
    /// Oldest first, node by node.
    pub items: Vec<ReportLine>,
}

/// One report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportLine {
    /// Who.
    pub node: NodeName,
    /// On what.
    pub generation: Generation,
    /// Which.
    pub seq: Seq,
    /// When, by the node's clock.
    pub at: Timestamp,
    /// What became of it.
    pub outcome: String,
}

/// What the controller finds when it looks at itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DoctorReport {
    /// Each finding.
    pub items: Vec<DoctorFinding>,
}

/// One finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DoctorFinding {
    /// Whether it wants doing something about.
    pub warning: bool,
    /// What, in one sentence.
    pub text: String,
}

/// Asks for a proof on the live bus.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VerifyRequest {
    /// Of whom; of everybody when it names nobody.
    #[serde(default)]
    pub principals: Vec<Principal>,
}

/// What the live bus let each principal do, beside what was derived for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verified {
    /// The revision that was proven.
    pub revision: Revision,
    /// A row for each principal.
    pub items: Vec<VerifiedPrincipal>,
}

/// What was tried as one principal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerifiedPrincipal {
    /// As whom.
    pub principal: Principal,
    /// How many operations were tried that its grant allows.
    pub allowed: usize,
    /// How many that it does not.
    pub refused: usize,
    /// How many replies that name what is not its own to reach.
    pub injections: usize,
    /// How many the bus lets happen although no grant allows them, and their readers do not believe.
    #[serde(default)]
    pub held: usize,
    /// How many were not tried: those of a module that its instances show, or those after a connection ended.
    pub untried: usize,
    /// Each operation that went otherwise than derived, in words.
    pub differences: Vec<String>,
    /// On which of two buses; nothing in a mesh on one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bus: Option<BusKind>,
    /// Why its bus was not asked; nothing when it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_asked: Option<String>,
}

/// Asks whether a principal may do one thing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CanRequest {
    /// Who.
    pub principal: Principal,
    /// What with the subject.
    pub verb: CanVerb,
    /// The subject; to subscribe it may have wildcards.
    pub subject: Filter,
    /// To subscribe as a member of this group.
    #[serde(default)]
    pub queue: Option<QueueGroup>,
}

/// What can be done with a subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CanVerb {
    /// Publish on it.
    Publish,
    /// Subscribe to it.
    Subscribe,
}

/// Whether it may, answered twice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CanAnswer {
    /// By what was derived.
    pub derived: bool,
    /// The entry of the grant that allows it.
    pub by: Option<String>,
    /// By the live bus.
    pub broker: BrokerAnswer,
    /// What the bus said, or why it was not asked.
    pub said: String,
    /// Which of two buses; nothing in a mesh on one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bus: Option<BusKind>,
}

/// What a live bus answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BrokerAnswer {
    /// It lets it happen.
    Yes,
    /// It does not.
    No,
    /// Neither was seen.
    Unclear,
    /// No bus of this kind can be asked.
    NotAsked,
}

/// Makes the store refuse for a while. Only a controller started for demonstrations and tests takes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RefuseStore {
    /// For how many milliseconds.
    pub for_millis: u64,
}

#[cfg(test)]
mod tests {
    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};

    use super::*;

    fn said_of<T: DeserializeOwned>(request: &Value) -> Option<String> {
        let read: Result<T, _> = serde_json::from_value(request.clone());
        read.err().map(|error| error.to_string())
    }

    fn knows_all_its_fields<T: DeserializeOwned>(mut request: Value) {
        assert_eq!(said_of::<T>(&request), None, "{request}");
        request["misspelt"] = json!(["module/shop"]);
        let said = said_of::<T>(&request).unwrap_or_default();
        assert!(
            said.contains("unknown field `misspelt`"),
            "{request}: {said}"
        );
    }

    #[test]
    fn a_request_with_a_misspelt_field_is_refused() {
        let declared = json!({"mesh": "m", "modules": {}, "seats": {}, "placements": {}});
        knows_all_its_fields::<PlanRequest>(json!({"declared": declared}));
        knows_all_its_fields::<Apply>(json!({"declared": declared}));
        knows_all_its_fields::<Assign>(json!({}));
        knows_all_its_fields::<Label>(json!({"labels": {}}));
        knows_all_its_fields::<Schedule>(json!({"scheduling": "drained"}));
        knows_all_its_fields::<Rotate>(json!({}));
        knows_all_its_fields::<Move>(json!({"to": "amqp"}));
        knows_all_its_fields::<TokenRequest>(json!({"ttlSecs": 1}));
        knows_all_its_fields::<VerifyRequest>(json!({}));
        knows_all_its_fields::<CanRequest>(
            json!({"principal": "controller", "verb": "publish", "subject": "a"}),
        );
    }
}
