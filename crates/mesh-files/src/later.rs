//! Keys whose meaning is settled and which this release does not carry out: refused by name, because a key that is read
//! and ignored is a promise broken in silence.

use toml::de::{DeTable, DeValue};

use crate::source::{Source, quoted};
use crate::{ErrorCode, FileError};

/// One such key.
#[derive(Debug)]
pub(crate) struct Later {
    table: &'static str,
    repeated: bool,
    key: &'static str,
    instead: &'static str,
    /// Whether `false` says what happens anyway, and is taken.
    unless: bool,
}

const fn run(key: &'static str, instead: &'static str) -> Later {
    Later {
        table: "run",
        repeated: false,
        key,
        instead,
        unless: false,
    }
}

const fn seat(key: &'static str, instead: &'static str) -> Later {
    Later {
        table: "seat",
        repeated: true,
        key,
        instead,
        unless: false,
    }
}

/// In a manifest.
pub(crate) const MANIFEST: &[Later] = &[
    run(
        "image",
        r#"run a plain process with command = ["bin", "arg"]"#,
    ),
    run("secrets", "let the process read its secrets from a file"),
    run("ports", "a plain process listens on the host's own ports"),
    run("volumes", "a plain process uses the host's own paths"),
    run("health", "a process is healthy while it runs"),
    run("resources", "set limits in the unit of the node agent"),
];

/// In the mesh's file.
pub(crate) const MESH: &[Later] = &[
    Later {
        unless: true,
        ..seat(
            "failover",
            "assign another holder by hand with `meshctl seat assign`",
        )
    },
    seat("grace", "there is no failover it would delay"),
];

/// Takes every such key out of a file, with an error for each.
pub(crate) fn refuse(
    keys: &[Later],
    root: &mut DeTable<'_>,
    source: Source<'_>,
    errors: &mut Vec<FileError>,
) {
    for later in keys {
        let Some(value) = root.get_mut(later.table) else {
            continue;
        };
        let tables: Vec<&mut DeTable<'_>> = match value.get_mut() {
            DeValue::Table(table) => vec![table],
            DeValue::Array(array) => array
                .iter_mut()
                .filter_map(|item| match item.get_mut() {
                    DeValue::Table(table) => Some(table),
                    _ => None,
                })
                .collect(),
            _ => continue,
        };
        for table in tables {
            let Some((key, value)) = table.remove_entry(later.key) else {
                continue;
            };
            let happens_anyway = later.unless && value.get_ref().as_bool() == Some(false);
            if !happens_anyway {
                errors.push(source.error(
                    key.span().start,
                    ErrorCode::NotCarriedOut,
                    later.sentence(),
                ));
            }
        }
    }
}

impl Later {
    fn sentence(&self) -> String {
        let (open, close) = if self.repeated {
            ("[[", "]]")
        } else {
            ("[", "]")
        };
        format!(
            "{} in {open}{}{close} is known but not carried out by this release: {}",
            quoted(self.key),
            self.table,
            self.instead
        )
    }
}
