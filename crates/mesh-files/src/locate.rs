//! What stands at a place of a parsed file: serde says where it failed, and not in which table.

use std::borrow::Cow;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The key at, or of the value at, one place.
#[derive(Debug, Default)]
pub(crate) struct Located {
    /// The tables it is in, from the outside.
    tables: Vec<String>,
    /// Whether the innermost table is one of several by that name.
    repeated: bool,
    /// The key; nothing when the place is a table's as a whole.
    pub(crate) key: Option<String>,
    /// The value, when it is a text.
    pub(crate) text: Option<String>,
}

impl Located {
    /// The table as a person finds it in the file: `[run]`, `[[seat]]`.
    pub(crate) fn table(&self) -> String {
        let path = self.tables.join(".");
        match (path.as_str(), self.repeated) {
            ("", _) => "the file".to_owned(),
            (path, false) => format!("[{path}]"),
            (path, true) => format!("[[{path}]]"),
        }
    }

    /// Where in the file that is: `in [run]`.
    pub(crate) fn within(&self) -> String {
        if self.tables.is_empty() {
            "at the top of the file".to_owned()
        } else {
            format!("in {}", self.table())
        }
    }

    fn inside(mut self, name: &str, repeated: bool) -> Self {
        self.repeated |= repeated && self.tables.is_empty();
        self.tables.insert(0, name.to_owned());
        self
    }
}

/// What begins at byte `at`. The parser nests at most 80 deep, so this recursion ends.
pub(crate) fn locate(root: &DeTable<'_>, at: usize) -> Option<Located> {
    root.iter().find_map(|(key, value)| {
        let name = key.get_ref();
        if key.span().start == at {
            return Some(Located {
                key: Some(name.to_string()),
                ..Located::default()
            });
        }
        let found = match value.get_ref() {
            DeValue::Table(table) => locate(table, at).map(|found| found.inside(name, false)),
            DeValue::Array(array) => array.iter().find_map(|item| match item.get_ref() {
                DeValue::Table(table) => locate(table, at)
                    .or_else(|| (item.span().start == at).then(Located::default))
                    .map(|found| found.inside(name, true)),
                other => (item.span().start == at).then(|| Located {
                    key: Some(name.to_string()),
                    text: other.as_str().map(str::to_owned),
                    ..Located::default()
                }),
            }),
            _ => None,
        };
        let whole = || {
            (value.span().start == at).then(|| match value.get_ref() {
                DeValue::Table(_) => Located::default().inside(name, false),
                other => Located {
                    key: Some(name.to_string()),
                    text: other.as_str().map(str::to_owned),
                    ..Located::default()
                },
            })
        };
        found.or_else(whole)
    })
}

/// Gives the entry whose key begins at byte `at` the key that was meant, unless that is there too; takes it out when
/// nobody knows what was meant. Whether there was such an entry.
pub(crate) fn correct(root: &mut DeTable<'_>, at: usize, meant: Option<&str>) -> bool {
    let key = root
        .keys()
        .find(|key| key.span().start == at)
        .map(|key| key.get_ref().to_string());
    if let Some(key) = key {
        let Some((key, value)) = root.remove_entry(key.as_str()) else {
            return false;
        };
        if let Some(meant) = meant
            && !root.contains_key(meant)
        {
            root.insert(
                Spanned::new(key.span(), Cow::Owned(meant.to_owned())),
                value,
            );
        }
        return true;
    }
    root.iter_mut().any(|(_, value)| match value.get_mut() {
        DeValue::Table(table) => correct(table, at, meant),
        DeValue::Array(array) => array.iter_mut().any(|item| match item.get_mut() {
            DeValue::Table(table) => correct(table, at, meant),
            _ => false,
        }),
        _ => false,
    })
}

/// The outermost value that begins at byte `at` and is of the kind meant: a list begins where its first item may.
pub(crate) fn value_at<'t, 'i>(
    value: &'t mut Spanned<DeValue<'i>>,
    at: usize,
    meant: &dyn Fn(&DeValue<'_>) -> bool,
) -> Option<&'t mut Spanned<DeValue<'i>>> {
    if value.span().start == at && meant(value.get_ref()) {
        return Some(value);
    }
    match value.get_mut() {
        DeValue::Table(table) => table
            .iter_mut()
            .find_map(|(_, inner)| value_at(inner, at, meant)),
        DeValue::Array(array) => array
            .iter_mut()
            .find_map(|inner| value_at(inner, at, meant)),
        _ => None,
    }
}
