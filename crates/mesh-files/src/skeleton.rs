//! The file a new module begins as.

use mesh_model::ModuleName;

/// A commented manifest for a new module. It is well formed as it stands.
pub fn skeleton(module: &ModuleName) -> String {
    format!(
        r#"version = 1

[module]
name = "{module}"
release = "0.1.0"                    # for people and reports; never interpreted

[run]
command = ["{module}"]               # the program, then its arguments
# after = ["db"]                     # modules of the same node that start before it
# env = {{ LOG = "info" }}             # names beginning MESH_ are set by the mesh
# restart = "always"                 # always | on-failure | never

[events]
emits = []                           # events of its own; "announced" needs no listing
follows = []                         # "<module>.<event>", by exact name

[seats]
can_hold = []                        # seats of mesh.toml whose work it can do
sends_to = []                        # seats it sends work to
"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{SourceFile, assemble};

    fn declared(text: &str) -> mesh_model::Declared {
        let file = |path: &str, text: &str| SourceFile {
            path: path.to_owned(),
            text: text.to_owned(),
        };
        let mesh = "version = 1\n[mesh]\nname = \"home\"\n";
        assemble(&[file("mesh.toml", mesh), file("modules/a.toml", text)]).unwrap()
    }

    #[test]
    fn a_skeleton_is_well_formed_as_it_stands_and_with_every_comment_taken_away() {
        let db = ModuleName::new("db").unwrap();
        let module = ModuleName::new("mailer").unwrap();
        assert!(declared(&skeleton(&module)).modules.contains_key(&module));
        let bare = skeleton(&module)
            .replace("\n# after = [\"db\"]", "\nafter = []")
            .replace("\n# ", "\n");
        let manifest = &declared(&bare).modules[&module];
        assert_eq!(manifest.env["LOG"], "info");
        assert!(declared(&skeleton(&db)).modules.contains_key(&db));
    }
}
