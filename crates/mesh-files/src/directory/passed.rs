//! Files that look as if they were meant to be read, and are not.

use std::path::Path;

use mesh_model::ModuleName;

use crate::notation::Notation;
use crate::source::printable;

/// Their paths from the directory, in order.
#[derive(Debug, Default)]
pub(super) struct PassedOver(pub(super) Vec<String>);

impl PassedOver {
    /// Which of them may have been meant to declare a module, by what it or its folder is called, and why it does not.
    pub(super) fn may_declare(&self, module: &ModuleName) -> Option<String> {
        let path = self.0.iter().find(|path| {
            let path = Path::new(path);
            let folder = path.parent().and_then(Path::file_name);
            [path.file_stem(), folder]
                .into_iter()
                .flatten()
                .any(|name| name == module.as_str())
        })?;
        let why = if Notation::of(path).is_some() {
            "manifests stand directly in modules/"
        } else {
            "a manifest ends in .toml, .json, .yaml or .yml"
        };
        Some(format!("; {} is not read: {why}", printable(path)))
    }
}
