//! Processes outlive the agent; the next one knows its own, and nobody else's.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use mesh_model::{ModuleState, Restart};
use mesh_runtime::{ProcessRuntime, RuntimeError};
use rustix::process::{Pid, WaitOptions, waitpid};

use crate::host::{
    TestHost, config, kill, marked, pid, report, runs, shell, sleeper, start, until, until_state,
    with_restart,
};

/// Set for the process that plays the agent which is killed.
const AGENT_DIR: &str = "MESH_RUNTIME_TEST_AGENT_DIR";

#[tokio::test]
async fn what_runs_goes_on_without_the_agent_and_is_adopted_untouched_by_the_next() {
    let host = TestHost::new();
    let runtime = host.open().await;
    let before = runtime
        .apply(vec![sleeper("a"), sleeper("b")])
        .await
        .unwrap();
    drop(runtime);
    assert!(runs(pid(&before, "a")) && runs(pid(&before, "b")));

    let (runtime, adopted) = host.try_open().await.unwrap();
    let pids: Vec<_> = adopted
        .iter()
        .map(|one| (one.module.as_str(), one.pid))
        .collect();
    assert_eq!(pids, [("a", pid(&before, "a")), ("b", pid(&before, "b"))]);
    assert_eq!(runtime.states(), before);

    // One is no longer declared: it is removed after an absence too.
    let after = runtime.apply(vec![sleeper("a")]).await.unwrap();
    assert_eq!(pid(&after, "a"), pid(&before, "a"));
    assert!(!runs(pid(&before, "b")));
    assert_eq!(after.len(), 1);
}

#[tokio::test]
async fn an_adopted_process_that_ends_is_started_again_whatever_its_status_was() {
    let host = TestHost::new();
    let desired = || vec![with_restart(sleeper("a"), Restart::OnFailure)];
    let runtime = host.open().await;
    let before = runtime.apply(desired()).await.unwrap();
    drop(runtime);
    let runtime = host.open().await;
    runtime.apply(desired()).await.unwrap();
    kill(pid(&before, "a"));
    let waiting = until_state(&runtime, "a", |r| r.state == ModuleState::Backoff).await;
    assert!(waiting.reason.unwrap().contains("could not learn"));
    let again = until_state(&runtime, "a", |r| r.state == ModuleState::Running).await;
    assert_eq!(again.restarts, 1);
}

#[tokio::test]
async fn what_ended_between_two_agents_is_started_again_unless_it_never_is() {
    let host = TestHost::new();
    let desired = || {
        vec![
            sleeper("always"),
            with_restart(sleeper("never"), Restart::Never),
        ]
    };
    let runtime = host.open().await;
    let before = runtime.apply(desired()).await.unwrap();
    drop(runtime);
    for module in ["always", "never"] {
        kill(pid(&before, module));
        until("gone", || !runs(pid(&before, module))).await;
    }
    let (runtime, adopted) = host.try_open().await.unwrap();
    assert_eq!(adopted, []);
    assert_eq!(
        report(&runtime.states(), "always").state,
        ModuleState::Backoff
    );
    let after = runtime.apply(desired()).await.unwrap();
    assert!(runs(pid(&after, "always")));
    assert_eq!(report(&after, "always").restarts, 1);
    assert_eq!(report(&after, "never").state, ModuleState::Ended);
}

#[tokio::test]
async fn two_agents_do_not_share_a_directory() {
    let host = TestHost::new();
    let _first = host.open().await;
    let refused = host.try_open().await.unwrap_err();
    assert!(matches!(refused, RuntimeError::InUse { .. }), "{refused}");
}

/// A process that is not the mesh's, of the test's own.
struct Foreign(Child);

impl Foreign {
    fn start() -> Self {
        Self(
            Command::new("sleep")
                .arg("300")
                .process_group(0)
                .spawn()
                .unwrap(),
        )
    }

    fn runs(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// Changes what is on record of an instance.
fn rewrite(host: &TestHost, module: &str, change: impl FnOnce(&str) -> String) {
    let path = host.dir().join(module).join("state.json");
    let record = fs::read_to_string(&path).unwrap();
    let changed = change(&record);
    assert_ne!(record, changed, "nothing to change in {record}");
    fs::write(path, changed).unwrap();
}

#[tokio::test]
async fn a_number_that_now_is_somebody_elses_process_is_left_alone() {
    let host = TestHost::new();
    let runtime = host.open().await;
    let before = runtime
        .apply(vec![sleeper("a"), sleeper("b")])
        .await
        .unwrap();
    runtime.stop_all().await.unwrap();
    runtime
        .apply(vec![sleeper("a"), sleeper("b")])
        .await
        .unwrap();
    let now = runtime.states();
    assert_ne!(before, now);
    drop(runtime);

    // A number is not used again within a tick; here nothing but the tick could tell the two apart.
    let mut foreign = Foreign::start();
    while ["a", "b"]
        .iter()
        .any(|module| start(pid(&now, module)) == start(foreign.0.id()))
    {
        foreign = Foreign::start();
    }
    for module in ["a", "b"] {
        let own = pid(&now, module);
        kill(own);
        until("gone", || !runs(own)).await;
        rewrite(&host, module, |record| {
            record.replace(
                &format!("\"pid\": {own}"),
                &format!("\"pid\": {}", foreign.0.id()),
            )
        });
    }
    let (runtime, adopted) = host.try_open().await.unwrap();
    assert_eq!(adopted, []);
    // One is started beside it, the other removed.
    let after = runtime.apply(vec![sleeper("a")]).await.unwrap();
    assert_ne!(pid(&after, "a"), foreign.0.id());
    runtime.stop_all().await.unwrap();
    assert!(foreign.runs());
}

/// A group whose leader has ended and is reaped, and its one member, ended with the value.
struct Leaderless {
    leader: u32,
    member: u32,
}

impl Leaderless {
    fn start() -> Self {
        let mut shell = Command::new("sh")
            .args(["-c", "sleep 300 >/dev/null & echo $!"])
            .process_group(0)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = String::new();
        let stdout = shell.stdout.take().unwrap();
        BufReader::new(stdout).read_line(&mut said).unwrap();
        shell.wait().unwrap();
        Self {
            leader: shell.id(),
            member: said.trim().parse().unwrap(),
        }
    }
}

impl Drop for Leaderless {
    fn drop(&mut self) {
        kill(self.member);
    }
}

#[tokio::test]
async fn a_group_without_a_leader_is_left_alone_unless_somebody_in_it_carries_the_mark() {
    let host = TestHost::new();
    let runtime = host.open().await;
    let parent = |module| shell(module, "sleep 300 & echo $!; wait");
    let before = runtime
        .apply(vec![parent("own"), parent("other")])
        .await
        .unwrap();
    let mut children = vec![];
    for module in ["own", "other"] {
        until("its child is known", || host.log(module).ends_with('\n')).await;
        children.push(host.log(module).trim().parse::<u32>().unwrap());
    }
    drop(runtime);
    for module in ["own", "other"] {
        let leader = pid(&before, module);
        kill(leader);
        let leader = Pid::from_raw(i32::try_from(leader).unwrap());
        waitpid(leader, WaitOptions::empty()).unwrap();
    }
    let stranger = Leaderless::start();
    rewrite(&host, "other", |record| {
        let (own, other) = (pid(&before, "other"), stranger.leader);
        record.replace(&format!("\"pid\": {own}"), &format!("\"pid\": {other}"))
    });

    let runtime = host.open().await;
    runtime.apply(vec![]).await.unwrap();
    assert!(!runs(children[0]), "what the module left is ended");
    assert!(runs(stranger.member), "what a stranger left is not");
}

#[tokio::test]
async fn one_started_by_an_agent_that_had_no_time_to_write_down_its_number_is_not_started_twice() {
    let host = TestHost::new();
    let runtime = host.open().await;
    let before = runtime.apply(vec![sleeper("a")]).await.unwrap();
    drop(runtime);
    let own = pid(&before, "a");
    let environ = fs::read(format!("/proc/{own}/environ")).unwrap();
    let mark = environ
        .split(|byte| *byte == 0)
        .find_map(|pair| pair.strip_prefix(b"MESH_INSTANCE="))
        .map(|mark| String::from_utf8(mark.to_vec()).unwrap())
        .unwrap();
    rewrite(&host, "a", |record| {
        let (head, _) = record.split_once("\"phase\"").unwrap();
        format!("{head}\"phase\": {{\"starting\": {{\"mark\": \"{mark}\"}}}}\n}}\n")
    });

    let (runtime, adopted) = host.try_open().await.unwrap();
    assert_eq!(adopted.iter().map(|one| one.pid).collect::<Vec<_>>(), [own]);
    let after = runtime.apply(vec![sleeper("a")]).await.unwrap();
    assert_eq!(pid(&after, "a"), own);
    assert_eq!(marked(&format!("MESH_INSTANCE={mark}")).len(), 1);
}

#[tokio::test]
async fn one_whose_record_cannot_be_read_is_ended_before_it_is_started_anew() {
    let host = TestHost::new();
    let runtime = host.open().await;
    let before = runtime.apply(vec![sleeper("a")]).await.unwrap();
    drop(runtime);
    rewrite(&host, "a", |_| "{".to_owned());
    let runtime = host.open().await;
    assert_eq!(report(&runtime.states(), "a").pid, Some(pid(&before, "a")));
    let after = runtime.apply(vec![sleeper("a")]).await.unwrap();
    assert!(!runs(pid(&before, "a")));
    assert!(runs(pid(&after, "a")));
}

#[tokio::test]
async fn processes_outlive_an_agent_that_is_killed() {
    let host = TestHost::new();
    let mut agent = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "adopting::an_agent_that_waits_to_be_killed",
            "--nocapture",
        ])
        .env(AGENT_DIR, host.dir())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(agent.stdout.take().unwrap()).lines();
    let own: u32 = lines
        .find_map(|line| line.unwrap().strip_prefix("runs as ")?.parse().ok())
        .expect("the agent says what it started");
    agent.kill().unwrap();
    agent.wait().unwrap();
    assert!(runs(own));

    let (runtime, adopted) = host.try_open().await.unwrap();
    assert_eq!(adopted.iter().map(|one| one.pid).collect::<Vec<_>>(), [own]);
    let after = runtime.apply(vec![sleeper("a")]).await.unwrap();
    assert_eq!(pid(&after, "a"), own);
    runtime.stop_all().await.unwrap();
    assert!(!runs(own));
}

/// The other side of the test above; without a directory there is nothing for it to do.
#[tokio::test]
async fn an_agent_that_waits_to_be_killed() {
    let Some(dir) = std::env::var_os(AGENT_DIR) else {
        return;
    };
    let (runtime, _) = ProcessRuntime::open(config(dir.as_ref())).await.unwrap();
    let states = runtime.apply(vec![sleeper("a")]).await.unwrap();
    println!("\nruns as {}", pid(&states, "a"));
    std::future::pending::<()>().await;
}
