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
# health = {{ tcp = "127.0.0.1:8025", every = "5s", within = "30s" }}   # or http = "http://…", exec = ["check"]
# secrets = ["SMTP_PASSWORD"]        # each in a file that SMTP_PASSWORD_FILE names; set with `meshctl secret set`

## As a container: an image in place of the command, and what only a container has.
## image = "registry.example/{module}:1.0.0"    # or {module}@sha256:… to pin it
## args = ["--verbose"]              # in place of the image's own command
## ports = ["8025:25"]               # HOST:CONTAINER, ADDRESS:HOST:CONTAINER, with /udp behind it
## volumes = ["data:/var/lib/data"]  # or "/srv/files:/files:ro"
## network = "bridge"                # bridge | host
## resources = {{ memory = "256MiB", cpus = 0.5 }}
## pull_secret = "REGISTRY"          # user:password of its registry, by the name of a secret

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
        assert!(manifest.health.is_some() && manifest.secrets.len() == 1);
        let contained = bare
            .replace("\n## As", "\n# As")
            .replace("\n## ", "\n")
            .replace("\ncommand = ", "\n# command = ");
        let manifest = &declared(&contained).modules[&module];
        let container = manifest.run.container().unwrap();
        assert_eq!(container.image.repository(), "registry.example/mailer");
        let given = (container.ports.len(), container.volumes.len());
        assert!(given == (1, 1) && container.pull_secret.is_some());
        assert_eq!(container.resources.millicpus, Some(500));
        assert!(declared(&skeleton(&db)).modules.contains_key(&db));
    }
}
