//! The schemas of what an operator writes, as they are published.

#[cfg(test)]
mod agreement;
#[cfg(test)]
mod generated;
#[cfg(test)]
pub(crate) mod rules;

/// The JSON Schema (draft 2020-12) of `modules/*.toml`, and of the same in YAML and JSON.
///
/// Whatever [`load`](crate::load) takes the schema takes. What a schema cannot say only `load` refuses: names that no
/// other file declares, circles of `after`, bytes in all.
pub fn manifest_schema() -> &'static str {
    include_str!("../../../docs/schema/manifest.schema.json")
}

/// The JSON Schema (draft 2020-12) of `mesh.toml`, and of the same in YAML and JSON.
pub fn mesh_schema() -> &'static str {
    include_str!("../../../docs/schema/mesh.schema.json")
}
