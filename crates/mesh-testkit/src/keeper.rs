//! A shell that keeps a server for a test: it does what it is told, and ends the server when whoever started it is gone.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, bail, ensure};

/// The shell, and both ends of the conversation with it.
///
/// Its script reads a word a line and answers with that word when it is done. When there is nothing more to read, whoever
/// started it is gone, however that ended, and it ends everything.
#[derive(Debug)]
pub(crate) struct Keeper {
    shell: Child,
    talk: Mutex<Option<(ChildStdin, BufReader<ChildStdout>)>>,
}

impl Keeper {
    /// Starts a script of `sh` with these arguments. What it complains of is its own to write down.
    pub(crate) fn start(script: &str, arguments: &[&str]) -> anyhow::Result<Self> {
        let mut shell = Command::new("sh")
            .args(["-c", script, "sh"])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            // A signal from the terminal is for us: the shell has to live on to clear up.
            .process_group(0)
            .spawn()
            .context("starting a shell")?;
        let stdin = shell.stdin.take().context("a shell is told")?;
        let stdout = shell.stdout.take().context("a shell answers")?;
        Ok(Self {
            shell,
            talk: Mutex::new(Some((stdin, BufReader::new(stdout)))),
        })
    }

    /// Has it do something, and waits until it has.
    pub(crate) fn tell(&self, word: &str) -> anyhow::Result<()> {
        let mut talk = self.talk.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((stdin, stdout)) = talk.as_mut() else {
            bail!("the shell was let go");
        };
        writeln!(stdin, "{word}").with_context(|| format!("telling {word}"))?;
        let mut answer = String::new();
        stdout.read_line(&mut answer)?;
        let answer = answer.trim_end();
        ensure!(answer == word, "told {word}, the shell says {answer:?}");
        Ok(())
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        let talk = self.talk.get_mut();
        drop(talk.unwrap_or_else(PoisonError::into_inner).take());
        // It clears up and ends; that it could not be waited for changes nothing.
        let _ended = self.shell.wait();
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const SCRIPT: &str = r#"
while read -r told; do
  case "$told" in
    write) echo here > "$1" ;;
    fail) exit 1 ;;
  esac
  echo "$told"
done
rm -f "$1"
"#;

    #[test]
    fn a_keeper_does_what_it_is_told_and_clears_up_when_it_is_let_go() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        let keeper = Keeper::start(SCRIPT, &[file.to_str().unwrap()]).unwrap();
        keeper.tell("write").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "here\n");
        drop(keeper);
        assert!(!file.exists());
    }

    #[test]
    fn a_keeper_that_ended_is_no_success() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        let keeper = Keeper::start(SCRIPT, &[file.to_str().unwrap()]).unwrap();
        assert!(keeper.tell("fail").is_err());
    }
}
