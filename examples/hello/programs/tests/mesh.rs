//! The files of the example are what the mesh takes, and run what this package builds.

#[cfg(test)]
mod tests {
    use std::path::Path;

    use mesh_derive::{Bounds, derive};
    use mesh_model::{BusFacts, Records};

    #[test]
    fn the_files_declare_a_mesh_whose_plan_is_sound() {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let declared = mesh_files::load(&dir).unwrap();
        let programs = [
            ("greeter", env!("CARGO_BIN_EXE_hello-greeter")),
            ("listener", env!("CARGO_BIN_EXE_hello-listener")),
            ("postman", env!("CARGO_BIN_EXE_hello-postman")),
        ];
        let modules = declared.modules.iter().map(|(name, manifest)| {
            let program = manifest.run.argv().next().unwrap();
            (name.as_str(), program)
        });
        let built = programs.map(|(name, path)| {
            let program = Path::new(path).file_name().unwrap();
            (name, program.to_str().unwrap())
        });
        assert!(modules.eq(built));
        assert_eq!(declared.placements.len(), 3);
        assert_eq!(declared.seats[&"post".parse().unwrap()].holder, None);

        let facts = BusFacts {
            domain: None,
            account: "MESH".to_owned(),
        };
        let mut records = Records::new(declared.mesh.clone(), facts);
        records.declared = declared;
        let plan = derive(&records, &Bounds::default());
        assert_eq!(plan.check(&records.bus), []);
    }

    /// What stands between these lines in the page for authors.
    fn shown(language: &str) -> String {
        let page = include_str!("../../../../docs/modules.md");
        let (_, rest) = page.split_once(&format!("```{language}\n")).unwrap();
        rest.split_once("```").unwrap().0.to_owned()
    }

    #[test]
    fn the_page_for_authors_shows_the_programs_that_are_run() {
        let rust = include_str!("../src/bin/clerk.rs");
        assert!(rust.ends_with(&shown("rust,no_run")), "another clerk.rs");
        let python = include_str!("../../../clerk/clerk.py");
        assert_eq!(python, shown("python"));
        let manifest = include_str!("../../../clerk/modules/clerk.toml");
        let begins = format!("# modules/clerk.toml\n{manifest}");
        assert_eq!(begins, shown("toml"));
    }
}
