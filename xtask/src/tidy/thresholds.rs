//! A `clippy.toml` nearer than the root's stands in for it whole: all must ask the same.

use toml::Table;

use super::Finding;
use super::tree::Tree;

const ROOT: &str = "clippy.toml";

/// Nearer `clippy.toml` files that differ from the root's in more than their reasons.
pub(super) fn agree(tree: &Tree) -> Vec<Finding> {
    let asked = |text: &str| Some(without_reasons(text.parse::<Table>().ok()?));
    let Some(root) = tree.text(ROOT).and_then(asked) else {
        return vec![Finding::new(ROOT, 1, "not there, or not TOML")];
    };
    tree.ending("/clippy.toml")
        .filter_map(|(path, text)| {
            let message = match asked(text) {
                None => "not TOML".to_owned(),
                Some(nearer) => {
                    format!("`{}` differs from the root's", difference(&root, &nearer)?)
                }
            };
            Some(Finding::new(path, 1, message))
        })
        .collect()
}

fn without_reasons(mut table: Table) -> Table {
    for (_, value) in &mut table {
        for entry in value.as_array_mut().into_iter().flatten() {
            if let Some(entry) = entry.as_table_mut() {
                entry.remove("reason");
            }
        }
    }
    table
}

/// The first key in which two tables differ.
fn difference<'a>(left: &'a Table, right: &'a Table) -> Option<&'a str> {
    left.keys()
        .chain(right.keys())
        .map(String::as_str)
        .find(|key| left.get(*key) != right.get(*key))
}

#[cfg(test)]
mod tests {
    use super::super::tree::sample;
    use super::*;

    const OURS: &str = "x = 60\nbans = [{ path = \"a\", reason = \"ours\" }]\n";

    fn found(nearer: &str) -> Vec<String> {
        let tree = sample::files(&[("clippy.toml", OURS), ("bins/clippy.toml", nearer)]);
        agree(&tree)
            .into_iter()
            .map(|found| found.message)
            .collect()
    }

    #[test]
    fn reasons_may_differ_and_nothing_else() {
        assert_eq!(found(&OURS.replace("ours", "theirs")), [""; 0]);
        assert_eq!(
            found(&OURS.replace("60", "600")),
            ["`x` differs from the root's"]
        );
        assert_eq!(found("x = 60\n"), ["`bans` differs from the root's"]);
        assert_eq!(
            found(&format!("{OURS}y = 1\n")),
            ["`y` differs from the root's"]
        );
        assert_eq!(found("x"), ["not TOML"]);
    }
}
