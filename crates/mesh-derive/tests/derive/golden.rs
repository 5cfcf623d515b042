//! What the renderers write, byte for byte: `tests/cases/NAME.in.json` against its `NAME.out.*`.
//!
//! With `MESH_BLESS` in the environment what is rendered becomes what is expected.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use mesh_derive::{Bounds, Plan, derive, render};
use mesh_model::{EventName, EventRef, Manifest, ModuleName, Records, SeatName};
use serde::Deserialize;

use crate::common::{add_module, add_node, add_seat, add_token, empty, manifest, user_key};

/// A mesh in a few words; keys come from names.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Mesh {
    domain: Option<String>,
    nodes: Vec<String>,
    tokens: Vec<String>,
    seats: BTreeMap<SeatName, Option<ModuleName>>,
    modules: Vec<Module>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Module {
    name: ModuleName,
    #[serde(default)]
    emits: BTreeSet<EventName>,
    #[serde(default)]
    follows: BTreeSet<EventRef>,
    #[serde(default)]
    can_hold: BTreeSet<SeatName>,
    #[serde(default)]
    sends_to: BTreeSet<SeatName>,
    on: Vec<String>,
}

pub(crate) const CASES: [&str; 3] = ["nothing", "mailer", "names"];

pub(crate) fn records(case: &str) -> Records {
    let text = std::fs::read_to_string(cases().join(format!("{case}.in.json"))).unwrap();
    let mesh: Mesh = serde_json::from_str(&text).unwrap();
    let mut records = empty();
    records.bus.domain = mesh.domain;
    mesh.nodes
        .iter()
        .for_each(|node| add_node(&mut records, node));
    mesh.tokens
        .iter()
        .for_each(|token| add_token(&mut records, token));
    for (seat, holder) in &mesh.seats {
        let holder = holder.as_ref().map(ModuleName::as_str);
        add_seat(&mut records, seat.as_str(), holder);
    }
    for module in mesh.modules {
        let manifest = Manifest {
            emits: module.emits,
            follows: module.follows,
            can_hold: module.can_hold,
            sends_to: module.sends_to,
            ..manifest(module.name.as_str())
        };
        let on: Vec<&str> = module.on.iter().map(String::as_str).collect();
        add_module(&mut records, manifest, &on);
    }
    assert_eq!(records.declared.check(), vec![]);
    records
}

fn cases() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases")
}

fn rendered(plan: &Plan) -> [(&'static str, String); 5] {
    let claims: BTreeMap<String, _> = plan
        .grants
        .iter()
        .map(|(principal, grant)| (principal.to_string(), render::jwt::user_claims(grant)))
        .collect();
    let pretty = |text: serde_json::Result<String>| text.unwrap() + "\n";
    [
        ("edge-users.conf", render::nats_conf::edge_users(plan)),
        (
            "accounts.conf",
            render::nats_conf::accounts(plan, &user_key("controller"), &user_key("system")),
        ),
        ("table.txt", render::table(plan)),
        (
            "plan.json",
            pretty(serde_json::to_string_pretty(&render::json(plan))),
        ),
        ("jwt.json", pretty(serde_json::to_string_pretty(&claims))),
    ]
}

/// D25
#[test]
fn what_is_rendered_is_what_is_committed() {
    for case in CASES {
        let plan = derive(&records(case), &Bounds::default());
        for (form, text) in rendered(&plan) {
            let path = cases().join(format!("{case}.out.{form}"));
            if std::env::var_os("MESH_BLESS").is_some() {
                std::fs::write(&path, &text).unwrap();
            }
            let expected = std::fs::read_to_string(&path).unwrap_or_default();
            assert_eq!(text, expected, "{}", path.display());
        }
    }
}

/// D25
#[test]
fn a_side_that_allows_nothing_is_written_as_a_deny_of_everything() {
    let claims = render::jwt::user_claims(&mesh_model::Grant::default());
    assert_eq!(
        serde_json::to_string(&claims).unwrap(),
        r#"{"pub":{"deny":[">"]},"sub":{"deny":[">"]}}"#
    );
}

/// D25
#[test]
fn the_bytes_of_a_jwt_count_its_header_its_claims_and_its_signature() {
    let grant = mesh_model::Grant::default();
    let principal = "node/a".parse().unwrap();
    let claims = format!(
        "{{\"jti\":\"{}\",\"iat\":1800000000,\"iss\":\"{}\",\"name\":\"node/a\",\"sub\":\"{}\",\"nats\":{{\"pub\":\
         {{\"deny\":[\">\"]}},\"sub\":{{\"deny\":[\">\"]}},\"subs\":-1,\"data\":-1,\"payload\":-1,\
         \"issuer_account\":\"{}\",\"type\":\"user\",\"version\":2}}}}",
        "A".repeat(52),
        "A".repeat(56),
        "U".repeat(56),
        "A".repeat(56),
    );
    let expected = 46 + 1 + (claims.len() * 4).div_ceil(3) + 1 + 86;
    assert_eq!(render::jwt::jwt_bytes(&principal, &grant), expected);
}
