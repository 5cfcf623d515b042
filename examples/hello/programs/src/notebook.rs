//! A file with one line for each message: what comes twice is written once.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::PathBuf;

use anyhow::Context;

/// The ids met so far, and the file they are in.
#[derive(Debug)]
pub struct Notebook {
    file: File,
    ids: BTreeSet<String>,
}

impl Notebook {
    /// Opens `$HELLO_OUT/<name>`, or `<name>` in the working directory, and reads what is in it.
    pub fn open(name: &str) -> anyhow::Result<Self> {
        let dir = std::env::var_os("HELLO_OUT").map_or_else(PathBuf::new, PathBuf::from);
        Self::open_at(dir.join(name))
    }

    fn open_at(path: PathBuf) -> anyhow::Result<Self> {
        let doing = || format!("notebook {}", path.display());
        if let Some(dir) = path.parent() {
            fs::create_dir_all(dir).with_context(doing)?;
        }
        let mut options = OpenOptions::new();
        let file = options.create(true).append(true).open(&path);
        let file = file.with_context(doing)?;
        let text = fs::read_to_string(&path).with_context(doing)?;
        let ids = text.lines().filter_map(|line| line.split(' ').next());
        Ok(Self {
            file,
            ids: ids.map(str::to_owned).collect(),
        })
    }

    /// Writes `<id> <text>`, if this id is new.
    pub fn note(&mut self, id: &str, text: &str) -> anyhow::Result<()> {
        if !self.ids.contains(id) {
            let line = format!("{id} {text}\n");
            self.file.write_all(line.as_bytes()).context("notebook")?;
            self.ids.insert(id.to_owned());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_twice_is_written_once_also_after_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("deeper/listener.log");
        for ids in [["a", "b"], ["b", "c"]] {
            let mut notebook = Notebook::open_at(path.clone()).unwrap();
            for id in ids {
                notebook.note(id, "hello").unwrap();
                notebook.note(id, "hello").unwrap();
            }
        }
        assert_eq!(
            fs::read_to_string(&path).unwrap(),
            "a hello\nb hello\nc hello\n"
        );
    }
}
