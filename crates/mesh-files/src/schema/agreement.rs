//! That the schemas and the parser agree: what the parser takes the schema takes, and what only the parser can refuse is
//! listed here, one by one.

mod rows;

use std::sync::LazyLock;

use boon::{Compiler, SchemaIndex, Schemas};
use mesh_model::{Declared, Manifest, MeshError, ModuleName};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::form::{ManifestForm, MeshForm};
use crate::manifest;
use crate::mesh::mesh;
use crate::names::Names;
use crate::read::read_on;
use crate::source::Source;

/// What is asked of one document, the other files aside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    Taken,
    Refused,
    /// Refused by the parser alone: a schema cannot say it.
    OnlyParsed,
}
use Answer::{Refused, Taken};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Manifest,
    Mesh,
}

static PUBLISHED: LazyLock<Published> = LazyLock::new(Published::new);

/// The two published schemas, compiled.
struct Published {
    schemas: Schemas,
    manifest: SchemaIndex,
    mesh: SchemaIndex,
}

impl Published {
    fn new() -> Self {
        let mut schemas = Schemas::new();
        let mut compiler = Compiler::new();
        let mut compiled = |name: &str, text: &str| {
            let schema: Value = serde_json::from_str(text).unwrap();
            compiler.add_resource(name, schema).unwrap();
            compiler.compile(name, &mut schemas).unwrap()
        };
        let manifest = compiled("manifest.json", crate::manifest_schema());
        let mesh = compiled("mesh.json", crate::mesh_schema());
        Self {
            schemas,
            manifest,
            mesh,
        }
    }

    fn take(&self, kind: Kind, document: &Value) -> bool {
        let schema = match kind {
            Kind::Manifest => self.manifest,
            Kind::Mesh => self.mesh,
        };
        self.schemas.validate(document, schema).is_ok()
    }
}

/// What one file by itself means, or what is wrong with it; what other files would have to say is not asked.
fn parsed(kind: Kind, file: &str, text: &str) -> Result<Declared, Vec<String>> {
    let source = Source::new(file, text);
    let mut errors = Vec::new();
    let mut declared = Declared {
        mesh: "home".parse().unwrap(),
        modules: [].into(),
        seats: [].into(),
        placements: [].into(),
    };
    match kind {
        Kind::Manifest => {
            let form = read_on::<ManifestForm>(source, &mut errors);
            let errors = &mut errors;
            let read =
                form.and_then(|form| manifest::manifest(form, &mut Names { source, errors }));
            let entry = |(manifest, _): manifest::Placed| -> (ModuleName, Manifest) {
                (manifest.module.clone(), manifest)
            };
            declared.modules.extend(read.map(entry));
        }
        Kind::Mesh => {
            let form = read_on::<MeshForm>(source, &mut errors);
            let errors = &mut errors;
            if let Some(read) = form.and_then(|form| mesh(form, &mut Names { source, errors })) {
                (declared.mesh, declared.seats) = (read.name, read.seats);
                declared.placements = read.placements;
            }
        }
    }
    let mut said: Vec<String> = errors.iter().map(ToString::to_string).collect();
    let own = declared.check().into_iter().filter(|error| {
        matches!(
            error,
            MeshError::Manifest { .. } | MeshError::Placement { .. }
        )
    });
    said.extend(own.map(|error| error.to_string()));
    if said.is_empty() {
        Ok(declared)
    } else {
        Err(said)
    }
}

/// A document as each notation has it: YAML holds JSON.
fn notations(document: &Value) -> Vec<(&'static str, String)> {
    let json = format!("{document:#}");
    // TOML has no null, and so no text of a document with one.
    let toml = toml::to_string(document).ok().map(|toml| ("f.toml", toml));
    let mut all = vec![("f.json", json.clone()), ("f.yaml", json)];
    all.extend(toml.filter(|_| !document.to_string().contains("null")));
    all
}

fn wrong(kind: Kind, document: &Value, answer: Answer) -> Vec<String> {
    let mut wrong = Vec::new();
    if PUBLISHED.take(kind, document) != (answer != Refused) {
        wrong.push(format!("the schema: not {answer:?}: {}", short(document)));
    }
    for (file, text) in notations(document) {
        let parsed = parsed(kind, file, &text);
        if parsed.is_ok() != (answer == Taken) {
            let said = parsed.err().unwrap_or_default().join("; ");
            wrong.push(format!(
                "{file}: not {answer:?}: {}: {said}",
                short(document)
            ));
        }
    }
    wrong
}

fn short(document: &Value) -> String {
    document.to_string().chars().take(200).collect()
}

/// A manifest with other values at some places: `run.after`.
fn changed(base: &Value, changes: &[(&str, Value)]) -> Value {
    let mut document = base.clone();
    for (path, value) in changes {
        let pointer: Vec<&str> = path.split('/').collect();
        let (last, tables) = pointer.split_last().unwrap();
        let mut place = &mut document;
        for table in tables {
            place = match table.parse::<usize>() {
                Ok(index) => &mut place[index],
                Err(_) => &mut place[*table],
            };
        }
        if value == &json!(rows::GONE) {
            place.as_object_mut().unwrap().remove(*last);
        } else {
            place[*last] = value.clone();
        }
    }
    document
}

#[test]
fn each_rule_of_a_manifest_is_in_the_schema_or_listed_as_what_it_cannot_say() {
    let of = |base: Value, rows: rows::Rows| {
        rows.into_iter().flat_map(move |(path, value, answer)| {
            let document = changed(&base, &[(path, value)]);
            wrong(Kind::Manifest, &document, answer)
        })
    };
    let processes = of(rows::bare(), rows::manifest());
    let containers = of(rows::contained(), rows::container());
    let wrong: Vec<String> = processes.chain(containers).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn each_rule_of_the_mesh_is_in_the_schema_or_listed_as_what_it_cannot_say() {
    let rows = rows::mesh();
    let wrong: Vec<String> = rows
        .into_iter()
        .flat_map(|(path, value, answer)| {
            wrong(
                Kind::Mesh,
                &changed(&rows::home(), &[(path, value)]),
                answer,
            )
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_skeleton_of_a_new_module_is_what_the_schema_takes() {
    let text = crate::skeleton(&"mailer".parse().unwrap());
    let bare = text.replace("\n# ", "\n");
    let contained = bare
        .replace("\n## As", "\n# As")
        .replace("\n## ", "\n")
        .replace("\ncommand = ", "\n# command = ");
    for text in [text, bare, contained] {
        let document: Value = toml::from_str(&text).unwrap();
        assert_eq!(wrong(Kind::Manifest, &document, Taken), [""; 0], "{text}");
    }
}

/// A value as somebody might put it anywhere, right or wrong.
fn any_value() -> impl Strategy<Value = Value> {
    let words = [
        "a",
        "b",
        "A",
        "b.c",
        "-",
        "",
        "controller",
        "prn",
        "announced",
        "always",
        "never",
        "MESH_A",
        "1:1",
        "a:/b",
        "5s",
        "8MiB",
        "http://a",
        "host",
    ];
    let word = prop::sample::select(words.to_vec()).prop_map(Value::from);
    let leaf = prop_oneof![
        6 => word,
        1 => any::<bool>().prop_map(Value::from),
        1 => (0..3).prop_map(Value::from),
        1 => Just(json!(1.5)),
    ];
    let keys = [
        "name", "module", "nodes", "labels", "holder", "command", "after", "env", "A", "http",
        "tcp", "exec", "every", "within", "memory", "cpus",
    ];
    leaf.prop_recursive(2, 8, 3, move |inner| {
        let key = prop::sample::select(keys.to_vec()).prop_map(str::to_owned);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map(key, inner, 0..3)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn what_the_parser_takes_the_schema_takes_and_every_notation_means_the_same(
        changes in prop::collection::vec((0..28_usize, any_value()), 0..3)
    ) {
        let manifest = ["version", "module/name", "module/release", "run", "run/command", "run/after", "run/env",
            "run/restart", "events", "events/emits", "events/follows", "seats", "seats/can_hold", "seats/sends_to",
            "run/restrat", "module", "run/image", "other", "run/args", "run/ports", "run/volumes", "run/network",
            "run/resources", "run/pull_secret", "run/health", "run/secrets", "run/health/tcp", "run/resources/cpus"];
        let mesh = ["version", "mesh", "mesh/name", "seat", "seat/0/name", "seat/0/holder", "seat/0/failover",
            "seat/0/grace", "place", "place/0/module", "place/0/nodes", "place/0/labels", "seat/0", "place/0",
            "seat/0/hoder", "other", "mesh/other", "place/0/other", "place/0/count", "seat/0/failover", "seat/0/grace",
            "place/0/count", "seat", "place", "mesh", "seat/0/failover", "place/0/count", "seat/0/grace"];
        let contained = changed(&rows::contained(), &[
            ("run/health", json!({"tcp": "a:1"})),
            ("run/resources", json!({"cpus": 1})),
        ]);
        let whole = changed(&rows::bare(), &[("events", json!({})), ("seats", json!({}))]);
        for (kind, base, paths) in [
            (Kind::Manifest, whole, manifest),
            (Kind::Manifest, contained, manifest),
            (Kind::Mesh, rows::home(), mesh),
        ] {
            let mut document = base;
            for (path, value) in &changes {
                // A change may have taken away the table that the next would change.
                let path = paths[*path];
                let table = path.rsplit_once('/').map_or_else(String::new, |(table, _)| format!("/{table}"));
                if document.pointer(&table).is_some_and(Value::is_object) {
                    document = changed(&document, &[(path, value.clone())]);
                }
            }
            let answers: Vec<_> = notations(&document)
                .into_iter()
                .map(|(file, text)| parsed(kind, file, &text))
                .collect();
            for answer in &answers {
                prop_assert_eq!(answer.is_ok(), answers[0].is_ok(), "{} {:?}", document, answers);
                if answer.is_ok() {
                    prop_assert_eq!(answer, &answers[0]);
                    prop_assert!(PUBLISHED.take(kind, &document), "{}", document);
                }
            }
        }
    }
}
