//! An operator follows what modules say, on NATS and on RabbitMQ, through the programs he starts.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, ensure};
use live_tests::binaries::Site;
use live_tests::{eventually, soon, within};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStderr, ChildStdout};

/// Says on which node it is, five times a second.
const CHATTY: &str = r#"[run]
command = ["sh", "-c", "i=0; while :; do i=$((i+1)); echo \"$MESH_NODE says $i\"; sleep 0.2; done"]
"#;
/// Says once what would steer a terminal, and what is no text.
const COLOURED: &str = r#"[run]
command = ["sh", "-c", "printf '\\033[31mred\\377\\n'; exec sleep 86400"]
"#;
/// A megabyte a second, in lines of a hundred bytes.
const SPAM: &str = r#"[run]
command = ["sh", "-c", "l=$(head -c 99 /dev/zero | tr '\\0' x); while :; do yes $l | head -n 1000; sleep 0.1; done"]
"#;

const MODULES: [(&str, &str, &[&str]); 2] = [
    ("chatty", CHATTY, &["one", "two"]),
    ("coloured", COLOURED, &["one"]),
];

/// A `meshctl logs -f` that runs.
struct Following {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    notes: ChildStderr,
}

impl Following {
    fn start(site: &Site, arguments: &[&str]) -> anyhow::Result<Self> {
        let mut command = site.command("meshctl")?;
        command.arg("--state-dir").arg(site.state_dir()).arg("logs");
        command.args(arguments).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut command = tokio::process::Command::from(command);
        let mut child = command.kill_on_drop(true).spawn()?;
        let out = child.stdout.take().context("its lines")?;
        let notes = child.stderr.take().context("its notes")?;
        let lines = BufReader::new(out).lines();
        Ok(Self {
            child,
            lines,
            notes,
        })
    }

    async fn line(&mut self) -> anyhow::Result<String> {
        let line = soon("a line is shown", self.lines.next_line()).await??;
        line.context("it ended")
    }

    /// Reads on until a line is this.
    async fn shows(&mut self, which: impl Fn(&str) -> bool) -> anyhow::Result<()> {
        let shown = async {
            while !which(&self.line().await?) {}
            anyhow::Ok(())
        };
        within(PATIENCE, "the line is shown", shown).await?
    }

    /// Interrupts it as a terminal would, and gives what it ended with and what it noted.
    async fn interrupt(mut self) -> anyhow::Result<(Option<i32>, String)> {
        let pid = self.child.id().context("it runs")?;
        let pid = Pid::from_raw(pid.try_into()?).context("a process has a number")?;
        kill_process(pid, Signal::INT)?;
        let status = soon("it ends when it is interrupted", self.child.wait()).await??;
        let mut noted = String::new();
        self.notes.read_to_string(&mut noted).await?;
        Ok((status.code(), noted))
    }
}

/// Two nodes; the module speaks on both, and each says a sign of life every second.
async fn begun(mut site: Site) -> anyhow::Result<Site> {
    site.start_controller().await?;
    for node in ["one", "two"] {
        site.join(node).await?;
        let config = site.home(node).join("agent.toml");
        let text = std::fs::read_to_string(&config)?;
        std::fs::write(&config, format!("heartbeat = \"1s\"\n{text}"))?;
        site.start_agent(node)?;
        site.ready(node).await?;
    }
    site.apply(&MODULES).await?;
    Ok(site)
}

async fn on_nats() -> anyhow::Result<Option<Site>> {
    match Site::new()? {
        Some(site) => begun(site).await.map(Some),
        None => Ok(None),
    }
}

async fn on_amqp() -> anyhow::Result<Option<Site>> {
    match tokio::task::spawn_blocking(Site::over_amqp).await?? {
        Some(site) => begun(site).await.map(Some),
        None => Ok(None),
    }
}

macro_rules! on_both_buses {
    ($($name:ident)*) => {
        mod nats {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $name() -> anyhow::Result<()> {
                    match super::on_nats().await? {
                        Some(site) => super::$name(site).await,
                        None => Ok(()),
                    }
                }
            )*
        }

        mod amqp {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $name() -> anyhow::Result<()> {
                    match super::on_amqp().await? {
                        Some(site) => super::$name(site).await,
                        None => Ok(()),
                    }
                }
            )*
        }
    };
}

on_both_buses! {
    what_a_module_says_is_shown_and_followed_until_it_is_interrupted
    what_is_not_there_and_who_does_not_answer_is_said
    a_reader_who_is_slow_is_told_what_was_left_out_and_nothing_waits_for_him
}

/// Each that went away is forgotten at the node, which takes eight at once.
async fn abandoned_readers_are_forgotten(site: &Site) -> anyhow::Result<()> {
    for _ in 0..12 {
        let mut gone = Following::start(site, &["-f", "--tail", "1", "chatty", "--node", "one"])?;
        gone.line().await?;
        gone.child.kill().await?;
    }
    let said = site
        .ctl(&["logs", "--tail", "1", "chatty", "--node", "one"])
        .await?;
    ensure!(said.code == Some(0), "{said:?}");
    Ok(())
}

async fn what_a_module_says_is_shown_and_followed_until_it_is_interrupted(
    site: Site,
) -> anyhow::Result<()> {
    let mut at_one = Following::start(&site, &["-f", "--tail", "2", "chatty", "--node", "one"])?;
    at_one.shows(|line| line.starts_with("one says ")).await?;
    let mut both = Following::start(&site, &["-f", "chatty"])?;
    let (mut one, mut two) = (false, false);
    while !(one && two) {
        let line = both.line().await?;
        one |= line.starts_with("one | one says ");
        two |= line.starts_with("two | two says ");
    }
    let (code, noted) = both.interrupt().await?;
    ensure!(code == Some(130), "{code:?}: {noted}");
    // Lines come in order, each once.
    let number = |line: &str| -> anyhow::Result<u64> {
        let number = line.strip_prefix("one says ");
        Ok(number.with_context(|| line.to_owned())?.parse()?)
    };
    let first = number(&at_one.line().await?)?;
    for next in 1..=10 {
        ensure!(number(&at_one.line().await?)? == first + next);
    }
    let (code, _) = at_one.interrupt().await?;
    ensure!(code == Some(130), "{code:?}");

    let said = site
        .ctl(&["logs", "--tail", "3", "chatty", "--node", "two"])
        .await?;
    let lines: Vec<&str> = said.out.lines().collect();
    ensure!(said.code == Some(0) && lines.len() == 3, "{said:?}");
    ensure!(
        lines.iter().all(|line| line.starts_with("two says ")),
        "{lines:?}"
    );
    // A program gets every byte.
    let mut command = site.command("meshctl")?;
    command.arg("--state-dir").arg(site.state_dir());
    let shown = tokio::process::Command::from(command)
        .args(["logs", "coloured"])
        .output();
    let shown = soon("it is shown", shown).await??;
    ensure!(shown.stdout == b"\x1b[31mred\xff\n", "{shown:?}");
    let json = site.ctl(&["logs", "coloured", "-o", "json"]).await?.ok()?;
    ensure!(json.contains(r#""bytes":"G1szMW1yZWT/""#), "{json}");

    abandoned_readers_are_forgotten(&site).await?;

    // Neither may say what the other does, nor hear what it is asked; and the server keeps to that.
    for (verb, subject, code) in [
        ("publish", "mesh.log.two", 0),
        ("publish", "mesh.log.one", 5),
        ("subscribe", "mesh.inbox.node.two.>", 0),
        ("subscribe", "mesh.inbox.node.one.>", 5),
        ("subscribe", "mesh.log.>", 5),
    ] {
        let said = site.ctl(&["can", "node/two", verb, subject]).await?;
        ensure!(said.code == Some(code), "{verb} {subject}: {said:?}");
        let word = if code == 0 { "yes" } else { "no" };
        ensure!(
            said.out.contains(&format!("broker   {word}")),
            "{verb} {subject}: {said:?}"
        );
    }
    site.ctl(&["verify"]).await?.ok().map(drop)
}

async fn what_is_not_there_and_who_does_not_answer_is_said(mut site: Site) -> anyhow::Result<()> {
    for (arguments, says) in [
        (&["logs", "nobody"][..], "there is no module nobody"),
        (
            &["logs", "chatty", "--node", "three"],
            "there is no node three",
        ),
        (
            &["logs", "coloured", "--node", "two"],
            "module coloured has no log on node two",
        ),
        (
            &["logs", "-f", "nobody", "--node", "one"],
            "module nobody has no log on node one",
        ),
    ] {
        let said = site.ctl(arguments).await?;
        ensure!(
            said.code == Some(3) && said.out.is_empty(),
            "{arguments:?}: {said:?}"
        );
        ensure!(said.err.contains(says), "{arguments:?}: {said:?}");
    }
    // One whose agent is there no more does not answer, as one of an earlier release would not.
    site.kill_agent("two")?;
    let said = site.ctl(&["logs", "chatty", "--node", "two"]).await?;
    ensure!(said.code == Some(7), "{said:?}");
    ensure!(
        said.err.contains("node two is there and does not answer") || said.err.contains("away"),
        "{said:?}"
    );
    eventually(PATIENCE, "node two counts as lost", async || {
        let node = site.node("two").await?;
        Ok(node.get("state").and_then(Value::as_str) == Some("lost"))
    })
    .await?;
    let said = site.ctl(&["logs", "-f", "chatty", "--node", "two"]).await?;
    ensure!(
        said.code == Some(7) && said.err.contains("node two is away"),
        "{said:?}"
    );
    let said = site.ctl(&["logs", "--tail", "1", "chatty"]).await?;
    ensure!(
        said.code == Some(7) && said.err.contains("node two is away"),
        "{said:?}"
    );
    ensure!(said.out.starts_with("one | one says "), "{said:?}");
    // The agent that is back has what the module said meanwhile.
    site.start_agent("two")?;
    site.ready("two").await?;
    let said = site
        .ctl(&["logs", "--tail", "2", "chatty", "--node", "two"])
        .await?;
    ensure!(
        said.code == Some(0) && said.out.lines().count() == 2,
        "{said:?}"
    );
    Ok(())
}

#[expect(clippy::print_stderr, reason = "how much was seen is worth a line")]
async fn a_reader_who_is_slow_is_told_what_was_left_out_and_nothing_waits_for_him(
    site: Site,
) -> anyhow::Result<()> {
    site.apply(&[("spam", SPAM, &["two"])]).await?;
    let mut slow = Following::start(&site, &["-f", "--tail", "1", "spam"])?;
    slow.line().await?;
    let (mut latest, mut asked) = (0, 0);
    let watched = tokio::time::Instant::now();
    while watched.elapsed() < SLOW_FOR {
        let node = site.node("two").await?;
        let ago = node.get("heard_ago").and_then(Value::as_u64);
        latest = latest.max(ago.context("it is heard")?);
        asked += 1;
    }
    ensure!(
        latest < 2_500,
        "a sign of life came {latest} ms late at most"
    );
    let resident = resident(site.controller_pid()?)?;
    ensure!(asked > 10, "looked {asked} times only");
    // Read on: what was left out is counted where it was, and then it goes on.
    let read_on = tokio::time::Instant::now();
    let mut bytes = 0;
    while read_on.elapsed() < Duration::from_secs(5) {
        bytes += slow.line().await?.len() + 1;
    }
    let (code, noted) = slow.interrupt().await?;
    ensure!(code == Some(130), "{code:?}: {noted}");
    let left_out: u64 = noted
        .lines()
        .filter_map(|note| {
            let rest = note.strip_prefix("meshctl: ")?;
            let (lines, rest) = rest.split_once(' ')?;
            let of = rest.starts_with("lines of node two were left out here");
            of.then(|| lines.parse::<u64>().ok())?
        })
        .sum();
    ensure!(left_out > 10_000, "{noted}");
    ensure!(bytes > 1_000_000, "{bytes} bytes in 5 s");
    eprintln!(
        "{asked} looks in {SLOW_FOR:?}: heard at most {latest} ms ago; {left_out} lines left out; then {bytes} bytes in 5 s; \
         controller {resident} KiB"
    );
    Ok(())
}

/// KiB of memory a process has.
fn resident(pid: u32) -> anyhow::Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    Ok(number.context("no number")?.parse()?)
}

const SLOW_FOR: Duration = Duration::from_secs(12);
const PATIENCE: Duration = Duration::from_mins(1);
