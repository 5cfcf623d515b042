//! Ten thousand pieces of work through five hand-overs and the loss of two nodes: each is done, none is left, and none
//! was done by a module that did not hold the seat when it was done with it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use live_tests::binaries::Site;
use live_tests::eventually;
use serde_json::Value;

/// Who can hold the seat: a module each, on a node each.
pub(crate) const CLERKS: [&str; 3] = ["clerk-a", "clerk-b", "clerk-c"];
const WORKS: usize = 10_000;

/// The bus the desk is on.
pub(crate) trait Bus {
    /// Who of the clerks may work the desk, by what stands where the broker reads it.
    fn holders(&self, site: &Site) -> anyhow::Result<BTreeSet<&'static str>>;

    /// Has the running broker itself refuse a clerk's credential the desk.
    async fn refuses(&self, site: &Site, clerk: &str) -> anyhow::Result<()>;
}

/// When a clerk held the seat, by this clock, in milliseconds: from before it was granted until after it was withdrawn.
#[derive(Debug, Default)]
struct Terms(BTreeMap<&'static str, Vec<(u64, u64)>>);

impl Terms {
    fn begins(&mut self, clerk: &'static str, at: u64) {
        self.0.entry(clerk).or_default().push((at, u64::MAX));
    }

    fn ends(&mut self, clerk: &'static str, at: u64) {
        if let Some((_, end)) = self.0.entry(clerk).or_default().last_mut() {
            *end = at;
        }
    }

    fn held(&self, clerk: &str, at: u64) -> bool {
        let terms = self.0.get(clerk).into_iter().flatten();
        terms
            .into_iter()
            .any(|(from, to)| (*from..=*to).contains(&at))
    }
}

/// The mesh: a node for who sends, and one for each clerk.
struct Desk<B> {
    site: Site,
    bus: B,
    terms: Terms,
    looks: usize,
    /// Nodes that were lost, each with at most one piece in hand.
    lost: usize,
}

/// With the loss of two nodes, each of which takes half a minute to be seen, or without.
pub(crate) async fn run(site: Site, bus: impl Bus, losses: bool) -> anyhow::Result<()> {
    let mut desk = Desk::begin(site, bus).await?;
    desk.hand_over(None, "clerk-a").await?;
    for (from, to) in [
        ("clerk-a", "clerk-b"),
        ("clerk-b", "clerk-c"),
        ("clerk-c", "clerk-a"),
        ("clerk-a", "clerk-b"),
        ("clerk-b", "clerk-c"),
    ] {
        let before = desk.done()?.len();
        desk.progress(before + 200).await?;
        desk.hand_over(Some(from), to).await?;
    }
    if losses {
        desk.lose("clerk-c", "clerk-a").await?;
        desk.lose("clerk-a", "clerk-b").await?;
    }
    desk.settle().await
}

impl<B: Bus> Desk<B> {
    async fn begin(mut site: Site, bus: B) -> anyhow::Result<Self> {
        site.start_controller().await?;
        for node in ["sender"].into_iter().chain(CLERKS) {
            site.join(node).await?;
            site.start_agent(node)?;
        }
        let out = site.dir().join("books");
        std::fs::create_dir_all(&out)?;
        let out = out.display().to_string();
        let run = |role: &str, seats: &str| {
            format!("[run]\ncommand = {role}\nenv = {{ DESK_OUT = {out:?} }}\n[seats]\n{seats}\n")
        };
        let sender = run(
            &format!("[\"desk\", \"send\", \"{WORKS}\"]"),
            "sends_to = [\"desk\"]",
        );
        let clerk = run("[\"desk\", \"hold\"]", "can_hold = [\"desk\"]");
        let mut modules = vec![("sender", sender.as_str(), &["sender"][..])];
        let nodes = CLERKS.map(|clerk| [clerk]);
        let clerks = CLERKS.iter().zip(&nodes);
        modules.extend(clerks.map(|(module, node)| (*module, clerk.as_str(), &node[..])));
        let folder = site.mesh(&modules)?;
        let mesh = folder.join("mesh.toml");
        let text = std::fs::read_to_string(&mesh)?;
        let seat = "[[seat]]\nname = \"desk\"\nfailover = true\ngrace = \"1s\"\n";
        std::fs::write(&mesh, text + seat)?;
        let folder = folder.display().to_string();
        let applied = site.ctl(&["apply", &folder, "--timeout", "50s"]).await?;
        applied.ok()?;
        Ok(Self {
            site,
            bus,
            terms: Terms::default(),
            looks: 0,
            lost: 0,
        })
    }

    /// Looks at who may: never may two work the desk.
    fn look(&mut self) -> anyhow::Result<BTreeSet<&'static str>> {
        let found = tokio::task::block_in_place(|| self.bus.holders(&self.site))?;
        ensure!(found.len() < 2, "{found:?} may work the desk at once");
        self.looks += 1;
        Ok(found)
    }

    /// Has somebody else hold the seat while work flows, looking all the while at who may work it.
    async fn hand_over(
        &mut self,
        from: Option<&'static str>,
        to: &'static str,
    ) -> anyhow::Result<()> {
        self.terms.begins(to, now());
        let verb = if from.is_some() {
            vec!["seat", "handover", "desk", "--to", to]
        } else {
            vec!["seat", "assign", "desk", to]
        };
        let mut command = tokio::process::Command::from(self.site.command("meshctl")?);
        command.arg("--state-dir").arg(self.site.state_dir());
        command.args(&verb).kill_on_drop(true);
        let mut running = command.stdout(std::process::Stdio::null()).spawn()?;
        let ended = loop {
            tokio::select! {
                ended = running.wait() => break ended?,
                () = tokio::time::sleep(LOOK_AGAIN) => {
                    self.look()?;
                }
            }
        };
        ensure!(ended.success(), "{verb:?}: {ended}");
        if let Some(from) = from {
            self.terms.ends(from, now());
            self.bus.refuses(&self.site, from).await?;
        }
        ensure!(self.look()? == [to].into(), "{to} may not work the desk");
        Ok(())
    }

    /// A node goes, with its agent and all it runs, and comes back when the seat is another's.
    async fn lose(&mut self, gone: &'static str, next: &'static str) -> anyhow::Result<()> {
        self.site.kill_agent(gone)?;
        self.site.kill_module(gone, gone)?;
        self.lost += 1;
        let killed = now();
        self.terms.begins(next, killed);
        let began = tokio::time::Instant::now();
        loop {
            if self.look()? == [next].into() {
                break;
            }
            if began.elapsed() > FAILOVER {
                bail!("{next} does not get the seat of {gone}, which is lost");
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        // It did nothing since it was killed, and may do nothing now.
        self.terms.ends(gone, killed + 1);
        let before = self.done()?.len();
        self.site.start_agent(gone)?;
        self.site.ready(gone).await?;
        self.bus.refuses(&self.site, gone).await?;
        self.progress(before + 50).await?;
        ensure!(
            self.look()? == [next].into(),
            "{gone} is back and has the seat"
        );
        Ok(())
    }

    /// Waits until so many different pieces are done.
    async fn progress(&self, count: usize) -> anyhow::Result<()> {
        let what = format!("{count} pieces are done");
        // One that was killed may have been done with a piece, and not have written so.
        let count = count.min(WORKS - self.lost);
        let done = eventually(PATIENCE, &what, async || Ok(self.done()?.len() >= count)).await;
        done.with_context(|| format!("{} are", self.done().map_or(0, |done| done.len())))
            .map(drop)
    }

    /// Everything that was sent is done, and by who held the seat.
    #[expect(clippy::print_stderr, reason = "how much was seen is worth a line")]
    async fn settle(mut self) -> anyhow::Result<()> {
        self.progress(WORKS).await?;
        let sent: BTreeSet<String> = book(&self.site, "sender")?
            .into_iter()
            .filter(|line| line.what == "sent")
            .map(|line| line.work)
            .collect();
        ensure!(sent.len() == WORKS, "{} were sent", sent.len());
        let empty = eventually(PATIENCE, "nothing waits", async || {
            let seats = self.site.json(&["seat", "ls"]).await?;
            let seat = seats.pointer("/items/0").context("the seat")?;
            Ok(seat.pointer("/backlog").and_then(Value::as_u64) == Some(0))
        });
        empty.await?;
        let (mut again, mut refused, mut wrong) = (0, 0, Vec::new());
        let (mut seen, mut begun) = (BTreeSet::new(), BTreeSet::new());
        for clerk in CLERKS {
            for line in book(&self.site, clerk)? {
                if line.what == "begun" {
                    begun.insert(line.work.clone());
                }
                refused += usize::from(line.what.starts_with("not-done"));
                if line.what != "done" {
                    continue;
                }
                again += usize::from(!seen.insert(line.work.clone()));
                if !self.terms.held(clerk, line.at) {
                    wrong.push(format!("{clerk}: {line:?}"));
                }
            }
        }
        ensure!(
            wrong.is_empty(),
            "done by who did not hold the seat: {wrong:?}"
        );
        ensure!(begun == sent, "another set of work was taken up");
        let unwritten: Vec<_> = sent.difference(&seen).collect();
        ensure!(unwritten.len() <= self.lost, "not done: {unwritten:?}");
        self.look()?;
        eprintln!(
            "{} pieces of work done in {} terms, {again} of them twice, {unwritten:?} by who was killed before it could write \
             so, {refused} refused to who no longer held the seat; \
             looked {} times at who may",
            seen.len(),
            self.terms.0.values().map(Vec::len).sum::<usize>(),
            self.looks
        );
        Ok(())
    }

    fn done(&self) -> anyhow::Result<BTreeSet<String>> {
        let mut done = BTreeSet::new();
        for clerk in CLERKS {
            let lines = book(&self.site, clerk)?.into_iter();
            done.extend(
                lines
                    .filter(|line| line.what == "done")
                    .map(|line| line.work),
            );
        }
        Ok(done)
    }
}

#[derive(Debug)]
struct Line {
    what: String,
    work: String,
    at: u64,
}

/// What a module wrote down. A line half written by one that was killed is none.
fn book(site: &Site, module: &str) -> anyhow::Result<Vec<Line>> {
    let path = site.dir().join("books").join(format!("{module}.log"));
    let text = read(&path)?;
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    let line = |line: &str| {
        let mut words = line.split(' ');
        Some(Line {
            what: words.next()?.to_owned(),
            work: words.next()?.to_owned(),
            at: words.next()?.parse().ok()?,
        })
    };
    Ok(whole.lines().filter_map(line).collect())
}

fn read(path: &Path) -> anyhow::Result<String> {
    match std::fs::read_to_string(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
        other => other.with_context(|| path.display().to_string()),
    }
}

fn now() -> u64 {
    mesh_host::now().as_millis()
}

const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// A node is lost after half a minute, and a second of grace follows.
const FAILOVER: Duration = Duration::from_mins(1);
/// Work that was in hand at the wrong moment comes again when its ack wait is over.
const PATIENCE: Duration = Duration::from_mins(4);
