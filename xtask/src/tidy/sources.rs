//! The outward form of a file: what it begins with, what it is called, how long it is.

use super::Finding;
use super::tree::Tree;

/// The most lines a file may have; half of it is a good length.
const LONGEST: usize = 600;

/// Files that are longer, each with a reason to stay whole.
const LONGER: &[&str] = &[];

/// Sources that do not begin by saying what they are for.
pub(super) fn first_line(tree: &Tree) -> Vec<Finding> {
    tree.ending(".rs")
        .filter(|(_, text)| !text.starts_with("//! "))
        .map(|(path, _)| Finding::new(path, 1, "begin with a `//! ` line saying its one job"))
        .collect()
}

/// Files too long to be read at once.
pub(super) fn length(tree: &Tree) -> Vec<Finding> {
    [".rs", ".md", ".toml", ".sh", ".yml"]
        .iter()
        .flat_map(|end| tree.ending(end))
        .filter(|(path, _)| !LONGER.contains(path))
        .filter(|(_, text)| text.lines().count() > LONGEST)
        .map(|(path, text)| {
            let message = format!("{} lines, {LONGEST} at most", text.lines().count());
            Finding::new(path, LONGEST + 1, message)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::tree::sample;
    use super::*;

    #[test]
    fn a_source_without_its_first_line_is_found() {
        let tree = sample::files(&[
            ("a.rs", "//! Says it.\n"),
            ("b.rs", "use std::fmt;\n//! Late.\n"),
            ("c.rs", ""),
            ("d.md", "# Not a source\n"),
        ]);
        let found: Vec<_> = first_line(&tree)
            .into_iter()
            .map(|found| found.path)
            .collect();
        assert_eq!(found, ["b.rs", "c.rs"]);
    }

    #[test]
    fn a_file_of_one_line_too_many_is_found() {
        let longest = "x\n".repeat(LONGEST);
        let longer = "x\n".repeat(LONGEST + 1);
        let tree = sample::files(&[
            ("a.rs", &longest),
            ("b.rs", &longer),
            ("Cargo.lock", &longer),
        ]);
        let found: Vec<_> = length(&tree).iter().map(ToString::to_string).collect();
        assert_eq!(found, ["b.rs:601: 601 lines, 600 at most"]);
    }
}
