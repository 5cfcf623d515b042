//! Authority from a directory alone.

use std::path::Path;
use std::process::ExitCode;

use mesh_derive::{Bounds, JWT_LIMIT, Mismatch, Plan, derive as derive_plan, render};
use mesh_model::{Declared, ModuleName, Selector};

use crate::cli::{Cli, Output};
use crate::declare::load;
use crate::out;
use crate::render::Cast;

/// Derives what a mesh would hold in which each node that placements name had joined, and prints each grant with its size.
pub(crate) fn derive(cli: &Cli, dir: &Path) -> anyhow::Result<ExitCode> {
    let declared = load(dir)?;
    for module in placed_by_labels(&declared) {
        out::note(&format!(
            "meshctl: module {module} is placed by labels, which nodes have and files do not: no module/{module}@NODE is listed"
        ));
    }
    let (plan, mismatches) = with_every_named_node(declared);
    match cli.output {
        Output::Json => out::data(&format!("{:#}\n", render::json(&plan))),
        Output::Table => out::data(&render::table(&plan)),
        Output::Name => {
            let names = plan.grants.keys().map(|principal| format!("{principal}\n"));
            out::data(&names.collect::<String>());
        }
    }
    for (principal, grant) in &plan.grants {
        let bytes = render::jwt::jwt_bytes(principal, grant);
        if bytes > JWT_LIMIT {
            out::note(&format!(
                "meshctl: {principal}: {bytes} bytes as a user JWT, and max_control_line (4096 bytes unless a server is told \
                 otherwise) leaves {JWT_LIMIT}: such a server in operator mode is refused, one with a users file takes it"
            ));
        }
    }
    for mismatch in &mismatches {
        out::note(&format!("meshctl: {mismatch}"));
    }
    Ok(ExitCode::from(u8::from(!mismatches.is_empty())))
}

/// The plan of a mesh in which each module runs on each node its placement names, and what does not hold in it. The keys
/// that stand in for real ones are nobody's, so the plan that is shown has none.
fn with_every_named_node(declared: Declared) -> (Plan, Vec<Mismatch>) {
    let nobody = std::iter::empty();
    let records = Cast::of(declared, nobody).records(&[].into());
    let mut plan = derive_plan(&records, &Bounds::default());
    let mismatches = plan.check(&records.bus);
    plan.users.clear();
    (plan, mismatches)
}

fn placed_by_labels(declared: &Declared) -> impl Iterator<Item = &ModuleName> {
    let placements = declared.placements.iter();
    placements.filter_map(|(module, placement)| {
        matches!(placement.on, Selector::Labels(_)).then_some(module)
    })
}

#[cfg(test)]
mod tests {
    use mesh_model::Placement;

    use super::*;

    fn example() -> Declared {
        let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/hello");
        mesh_files::load(&example).unwrap()
    }

    fn names(declared: Declared) -> Vec<String> {
        let (plan, mismatches) = with_every_named_node(declared);
        assert_eq!(mismatches, []);
        plan.grants.keys().map(ToString::to_string).collect()
    }

    #[test]
    fn each_named_node_and_each_module_on_it_is_listed() {
        let declared = example();
        let listed = names(declared.clone());
        let mut named = 0;
        for (module, placement) in &declared.placements {
            let Selector::Nodes(nodes) = &placement.on else {
                continue;
            };
            for node in nodes {
                named += 1;
                for expected in [format!("node/{node}"), format!("module/{module}@{node}")] {
                    assert!(
                        listed.contains(&expected),
                        "{expected} is not in {listed:?}"
                    );
                }
            }
        }
        assert!(named > 0);
    }

    #[test]
    fn what_is_placed_by_labels_is_named_and_has_its_module_listed_alone() {
        let mut declared = example();
        let module = declared.placements.keys().next().unwrap().clone();
        let labels = [("role".to_owned(), "web".to_owned())].into();
        let on = Selector::Labels(labels);
        declared
            .placements
            .insert(module.clone(), Placement { on, count: None });
        let by_labels: Vec<&ModuleName> = placed_by_labels(&declared).collect();
        assert_eq!(by_labels, [&module]);
        let listed = names(declared.clone());
        assert!(listed.contains(&format!("module/{module}")), "{listed:?}");
        let instance = format!("module/{module}@");
        assert!(
            !listed.iter().any(|it| it.starts_with(&instance)),
            "{listed:?}"
        );
    }

    #[test]
    fn no_made_up_key_is_shown() {
        let (plan, _) = with_every_named_node(example());
        let shown: serde_json::Value =
            serde_json::from_str(&render::json(&plan).to_string()).unwrap();
        let principals = shown["principals"].as_array().unwrap();
        assert!(
            principals
                .iter()
                .any(|it| it["principal"].as_str().unwrap().contains('@'))
        );
        for principal in principals {
            assert_eq!(principal["keys"], serde_json::json!([]), "{principal}");
        }
    }
}
