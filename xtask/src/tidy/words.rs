//! The tree names no machine it was written on and no host it was fetched from.

use super::Finding;
use super::tree::{Tree, lines};

/// Hosts of package registries: a client's configuration knows them, and may know others.
/// Written in two halves, so that this file may be checked too.
const HOSTS: &[&str] = &[
    concat!("pypi", ".org"),
    concat!("pythonhosted", ".org"),
    concat!("crates", ".io"),
    concat!("npmjs", ".org"),
    concat!("npmjs", ".com"),
    concat!("debian", ".org"),
];

/// Folders of one machine, when they begin a path.
const FOLDERS: &[&str] = &[concat!("/work", "/")];

/// The one file that cargo writes hosts into.
const LOCK: &str = "Cargo.lock";

/// Lines that name what only one machine has.
pub(super) fn forbidden(tree: &Tree) -> Vec<Finding> {
    tree.files()
        .filter(|(path, _)| !path.ends_with(LOCK))
        .flat_map(|(path, text)| {
            lines(text).filter_map(move |(number, line)| {
                let word = word(line)?;
                Some(Finding::new(
                    path,
                    number,
                    format!("`{word}` has no place here"),
                ))
            })
        })
        .collect()
}

fn word(line: &str) -> Option<&'static str> {
    let host = HOSTS.iter().find(|host| line.contains(*host));
    let folder = || FOLDERS.iter().find(|folder| begins_a_path(line, folder));
    host.or_else(folder).copied()
}

/// Whether the folder stands in the line as the beginning of a path, not in the middle of one.
fn begins_a_path(line: &str, folder: &str) -> bool {
    let mut before = String::new();
    for part in line.split_inclusive(folder) {
        if let Some(start) = part.strip_suffix(folder) {
            before.push_str(start);
            let inner = |letter: char| letter.is_alphanumeric() || ".-_>}*/".contains(letter);
            if !before.ends_with(inner) {
                return true;
            }
            before.push_str(folder);
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::super::tree::sample;
    use super::*;

    #[test]
    fn a_host_or_a_folder_of_one_machine_is_found_with_its_line() {
        for (text, at) in [
            (format!("fine\nfrom {}/x\n", HOSTS[0]), 2),
            (format!("see {}main/README.md", FOLDERS[0]), 1),
            (format!("a/b{}c and \"{}d\"", FOLDERS[0], FOLDERS[0]), 1),
        ] {
            let tree = sample::files(&[("docs/a.md", &text), ("Cargo.lock", &text)]);
            let found = forbidden(&tree);
            assert_eq!(found.len(), 1, "{text}");
            assert_eq!((found[0].path.as_str(), found[0].line), ("docs/a.md", at));
        }
    }

    #[test]
    fn a_folder_of_ours_that_is_called_so_too_is_left_alone() {
        let text = format!("seat{}queue and ~{}", FOLDERS[0], "/works/");
        assert_eq!(forbidden(&sample::files(&[("a.md", &text)])), []);
    }
}
