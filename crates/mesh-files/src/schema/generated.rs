//! The schemas as the types give them, and that the published ones are these.
//!
//! With `MESH_BLESS` in the environment what is generated becomes what is published.

use std::fs;
use std::path::Path;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

use crate::form::{ManifestForm, MeshForm};

#[test]
fn the_published_schemas_are_those_of_the_types() {
    let mut manifest = of::<ManifestForm>("A module of the mesh");
    let mut mesh = of::<MeshForm>("The mesh");
    whole(&mut manifest);
    whole(&mut mesh);
    for (name, schema, published) in [
        ("manifest", manifest, crate::manifest_schema()),
        ("mesh", mesh, crate::mesh_schema()),
    ] {
        let text = format!("{schema:#}\n");
        if std::env::var_os("MESH_BLESS").is_some() {
            let here = Path::new(env!("CARGO_MANIFEST_DIR"));
            let file = here.join(format!("../../docs/schema/{name}.schema.json"));
            fs::write(file, &text).unwrap();
            continue;
        }
        assert!(
            text == published,
            "docs/schema/{name}.schema.json differs; set MESH_BLESS=1 to write it"
        );
    }
}

fn of<T: JsonSchema>(title: &str) -> Value {
    let generator = SchemaSettings::draft2020_12().into_generator();
    let mut schema = generator.into_root_schema_for::<T>().to_value();
    schema["title"] = json!(title);
    schema
}

/// What every file says beside its form, and what of the form is nothing to a file.
fn whole(schema: &mut Value) {
    schema["properties"]["version"] =
        json!({"const": 1, "description": "The version of this file's form."});
    schema["properties"]["$schema"] =
        json!({"type": "string", "description": "Where an editor finds this schema; not read."});
    schema["required"]
        .as_array_mut()
        .unwrap()
        .insert(0, json!("version"));
    without_null(schema);
}

/// A key that is left out has no value, and no notation of ours lets it have none.
fn without_null(schema: &mut Value) {
    match schema {
        Value::Object(keys) => {
            keys.retain(|key, value| !(key == "default" && value.is_null()));
            keys.values_mut().for_each(without_null);
        }
        Value::Array(items) => items.iter_mut().for_each(without_null),
        _ => {}
    }
}
