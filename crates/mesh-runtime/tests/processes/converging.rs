//! What is started is judged, and what was good comes back in place of what is bad.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use mesh_model::{Health, ModuleState, Probe, Restart};
use mesh_runtime::{Desired, ProcessRuntime, RuntimeError, Tail};
use tokio::time::timeout;

use crate::host::{
    DEADLINE, TestHost, config, kill, pid, report, runs, shell, sleeper, until, until_state,
    with_restart,
};

/// Set for the process that plays the agent which is killed.
const AGENT_DIR: &str = "MESH_RUNTIME_TEST_CONVERGING_DIR";

fn released(release: &str, mut desired: Desired) -> Desired {
    desired.workload.release = release.to_owned();
    desired
}

/// Healthy while this file is where the module works.
fn asked(file: &str, within: u64, mut desired: Desired) -> Desired {
    let command = ["test", "-e", file].map(str::to_owned).to_vec();
    desired.workload.health = Some(Health {
        probe: Probe::Exec(command),
        every: 100,
        within,
    });
    desired
}

fn after(earlier: &str, mut desired: Desired) -> Desired {
    desired.workload.after.insert(earlier.parse().unwrap());
    desired
}

fn touch(host: &TestHost, module: &str, file: &str) {
    let dir = host.dir().join(module).join("files");
    fs::create_dir_all(&dir).unwrap();
    fs::write(dir.join(file), "").unwrap();
}

#[tokio::test]
async fn a_module_starts_until_it_is_healthy_and_runs_from_then_on() {
    let host = TestHost::new();
    let runtime = host.open().await;
    let desired = asked("ready", 60_000, sleeper("m"));
    let (applied, starting) = tokio::join!(runtime.apply(vec![desired]), async {
        let starting = until_state(&runtime, "m", |r| r.pid.is_some()).await;
        touch(&host, "m", "ready");
        starting
    });
    assert_eq!(starting.state, ModuleState::Starting);
    let running = report(&applied.unwrap(), "m");
    assert_eq!(running.state, ModuleState::Running);
    assert_eq!((running.pid, running.restarts), (starting.pid, 0));
}

#[tokio::test]
async fn a_release_that_does_not_get_healthy_gives_way_to_the_one_before() {
    let host = TestHost::new();
    let runtime = host.open().await;
    let good = released("1", sleeper("m"));
    let first = runtime.apply(vec![good.clone()]).await.unwrap();
    let bad = || asked("never", 250, released("2", sleeper("m")));
    let states = runtime.apply(vec![bad(), sleeper("other")]).await.unwrap();
    let back = report(&states, "m");
    assert_eq!(
        (back.release.as_str(), back.state),
        ("1", ModuleState::Running)
    );
    assert_eq!(
        back.reason.as_deref(),
        Some(
            "release 2: not healthy within 250 ms: test exited with status 1; release 1 runs again"
        )
    );
    assert!(!runs(pid(&first, "m")) && runs(pid(&states, "m")));
    assert!(back.last_exit.unwrap().how.contains("not healthy"));

    // It is not tried again: not by the same declaration, not by one that is about others, not by another agent.
    let again = runtime
        .apply(vec![bad(), sleeper("another")])
        .await
        .unwrap();
    assert_eq!(pid(&again, "m"), pid(&states, "m"));
    drop(runtime);
    let runtime = host.open().await;
    assert_eq!(report(&runtime.states(), "m"), report(&again, "m"));
    let again = runtime.apply(vec![bad()]).await.unwrap();
    assert_eq!(report(&again, "m"), report(&states, "m"));

    // Should it end, what is good is started again.
    kill(pid(&again, "m"));
    until_state(&runtime, "m", |r| r.pid.is_none()).await;
    let again = until_state(&runtime, "m", |r| r.state == ModuleState::Running).await;
    assert_eq!((again.release.as_str(), again.restarts), ("1", 1));
    assert!(again.reason.unwrap().contains("release 1 runs again"));

    // Declared once more, it is what was declared, and goes on.
    let states = runtime.apply(vec![good]).await.unwrap();
    let same = report(&states, "m");
    assert_eq!((same.pid, same.reason), (again.pid, None));
    // Now the other is tried anew.
    let states = runtime.apply(vec![bad()]).await.unwrap();
    assert_ne!(pid(&states, "m"), same.pid.unwrap());
    assert!(report(&states, "m").reason.is_some());
}

#[tokio::test]
async fn a_question_that_was_wrong_may_be_corrected() {
    let host = TestHost::new();
    let runtime = host.open().await;
    runtime.apply(vec![sleeper("m")]).await.unwrap();
    let bad = asked("never", 200, released("2", sleeper("m")));
    let states = runtime.apply(vec![bad]).await.unwrap();
    assert_eq!(report(&states, "m").release, "1");
    touch(&host, "m", "ready");
    let corrected = asked("ready", 60_000, released("2", sleeper("m")));
    let states = runtime.apply(vec![corrected]).await.unwrap();
    let good = report(&states, "m");
    assert_eq!((good.release.as_str(), good.reason), ("2", None));
    // Another question of what is good restarts nothing, and is asked from then on.
    let otherwise = asked("other", 60_000, released("2", sleeper("m")));
    touch(&host, "m", "other");
    let states = runtime.apply(vec![otherwise]).await.unwrap();
    assert_eq!(Some(pid(&states, "m")), good.pid);
    fs::remove_file(host.dir().join("m/files/other")).unwrap();
    let ended = until_state(&runtime, "m", |r| r.pid != good.pid).await;
    assert!(ended.last_exit.unwrap().how.starts_with("unhealthy"));
}

#[tokio::test]
async fn what_is_bad_from_the_first_has_nothing_to_go_back_to_and_is_tried_again() {
    let host = TestHost::new();
    let runtime = host.open().await;
    let states = runtime
        .apply(vec![asked("ready", 200, sleeper("m"))])
        .await
        .unwrap();
    let bad = report(&states, "m");
    assert_eq!(bad.state, ModuleState::Backoff);
    let reason = bad.reason.unwrap();
    assert!(
        reason.starts_with("unhealthy: not healthy within 200 ms: "),
        "{reason}"
    );
    assert_eq!(bad.last_exit.unwrap().how, reason);
    touch(&host, "m", "ready");
    let good = until_state(&runtime, "m", |r| r.state == ModuleState::Running).await;
    assert!(good.restarts > 0 && good.reason.is_none(), "{good:?}");
}

#[tokio::test]
async fn a_job_that_fails_for_good_gives_way_and_one_that_succeeds_is_good() {
    let host = TestHost::new();
    let runtime = host.open().await;
    let job =
        |release, script| released(release, with_restart(shell("job", script), Restart::Never));
    let states = runtime.apply(vec![job("1", "echo one")]).await.unwrap();
    assert_eq!(report(&states, "job").state, ModuleState::Ended);
    let states = runtime.apply(vec![job("2", "exit 4")]).await.unwrap();
    let back = report(&states, "job");
    assert_eq!(
        (back.release.as_str(), back.state),
        ("1", ModuleState::Ended)
    );
    // What it was to do is done, and is not done again: not now, and not by another agent.
    let reason = "exited with status 0 (release 2: exited with status 4; release 1 stands)";
    assert_eq!(back.reason.as_deref(), Some(reason));
    drop(runtime);
    let runtime = host.open().await;
    let states = runtime.apply(vec![job("2", "exit 4")]).await.unwrap();
    assert_eq!(report(&states, "job"), back);
    assert_eq!(host.log("job"), "one\n");
    // One that never starts anew, and is ended since it is not healthy, has not done its work.
    let unhealthy = with_restart(asked("never", 150, sleeper("sick")), Restart::Never);
    let states = runtime.apply(vec![unhealthy]).await.unwrap();
    assert_eq!(report(&states, "sick").state, ModuleState::Failed);
}

#[tokio::test]
async fn what_was_good_and_is_no_longer_healthy_is_started_anew_and_counted() {
    let host = TestHost::new();
    let runtime = host.open().await;
    touch(&host, "m", "ready");
    let desired = asked("ready", 60_000, sleeper("m"));
    let first = runtime.apply(vec![desired]).await.unwrap();
    let ready = host.dir().join("m/files/ready");
    fs::remove_file(&ready).unwrap();
    let ended = until_state(&runtime, "m", |r| r.pid != Some(pid(&first, "m"))).await;
    let exit = ended.last_exit.unwrap();
    assert_eq!(exit.how, "unhealthy: test exited with status 1");
    assert_eq!(exit.at.as_millis(), 1_795_000_000_000);
    fs::write(&ready, "").unwrap();
    let again = until_state(&runtime, "m", |r| r.state == ModuleState::Running).await;
    assert_eq!((again.restarts, again.repairs), (1, 0));
    assert!(!runs(pid(&first, "m")));
}

#[tokio::test]
async fn a_question_that_hangs_is_ended_with_all_it_started() {
    let host = TestHost::new();
    let runtime = host.open().await;
    let mut desired = sleeper("m");
    let script = "sleep 300 & echo $! >>asked; wait";
    desired.workload.health = Some(Health {
        probe: Probe::Exec(["sh", "-c", script].map(str::to_owned).to_vec()),
        every: 100,
        within: 400,
    });
    let states = runtime.apply(vec![desired]).await.unwrap();
    let reason = report(&states, "m").reason.unwrap();
    assert!(reason.contains("sh did not answer in time"), "{reason}");
    runtime.stop_all().await.unwrap();
    let asked = fs::read_to_string(host.dir().join("m/files/asked")).unwrap();
    assert!(asked.lines().count() >= 2, "{asked}");
    for hung in asked.lines() {
        let hung = hung.parse().unwrap();
        until("it is ended", || !runs(hung)).await;
    }
}

#[tokio::test]
async fn a_start_that_waits_to_be_healthy_holds_up_only_what_comes_after_it() {
    let host = TestHost::new();
    let runtime = host.open().await;
    let old = released("1", sleeper("app"));
    let before = runtime.apply(vec![old]).await.unwrap();
    let desired = vec![
        asked("ready", 60_000, sleeper("db")),
        after("db", released("2", sleeper("app"))),
        sleeper("other"),
    ];
    let (applied, ()) = tokio::join!(runtime.apply(desired), async {
        until_state(&runtime, "other", |r| r.state == ModuleState::Running).await;
        let db = until_state(&runtime, "db", |r| r.pid.is_some()).await;
        assert_eq!(db.state, ModuleState::Starting);
        // What is to be replaced goes on until it can be.
        let app = report(&runtime.states(), "app");
        assert_eq!(app.pid, Some(pid(&before, "app")));
        assert_eq!(
            (app.release.as_str(), app.state),
            ("1", ModuleState::Starting)
        );
        touch(&host, "db", "ready");
    });
    let states = applied.unwrap();
    assert_eq!(report(&states, "app").release, "2");
    assert!(!runs(pid(&before, "app")) && runs(pid(&states, "app")));
}

#[tokio::test]
async fn what_never_gets_healthy_holds_up_nobody_for_ever() {
    let host = TestHost::new();
    let runtime = host.open().await;
    let desired = vec![
        asked("never", 200, sleeper("db")),
        after("db", sleeper("app")),
    ];
    let states = runtime.apply(desired).await.unwrap();
    assert!(runs(pid(&states, "app")));
    assert_ne!(report(&states, "db").state, ModuleState::Running);
}

#[tokio::test]
async fn a_newer_order_need_not_wait_for_a_start_that_takes_its_time() {
    let host = TestHost::new();
    let runtime = host.open().await;
    let first = runtime.apply(vec![sleeper("m")]).await.unwrap();
    let slow = || asked("never", 600_000, released("2", sleeper("m")));
    let both = async {
        tokio::join!(
            runtime.apply(vec![slow(), asked("kept", 600_000, sleeper("kept"))]),
            async {
                let trial =
                    until_state(&runtime, "m", |r| r.release == "2" && r.pid.is_some()).await;
                let kept = until_state(&runtime, "kept", |r| r.pid.is_some()).await;
                touch(&host, "kept", "kept");
                let third = released("3", sleeper("m"));
                let kept_on = asked("kept", 600_000, sleeper("kept"));
                let newer = runtime.apply(vec![third, kept_on]).await.unwrap();
                assert!(!runs(trial.pid.unwrap()) && !runs(pid(&first, "m")));
                // A start that both want goes on.
                assert_eq!(Some(pid(&newer, "kept")), kept.pid);
                newer
            }
        )
    };
    let (older, newer) = timeout(DEADLINE, both).await.expect("it waits for nothing");
    assert_eq!(older.unwrap(), newer);
    assert_eq!(report(&newer, "m").release, "3");
}

#[tokio::test]
async fn what_was_good_comes_back_although_something_else_was_tried_in_between() {
    let host = TestHost::new();
    let runtime = host.open().await;
    runtime.apply(vec![sleeper("m")]).await.unwrap();
    let slow = asked("never", 600_000, released("2", sleeper("m")));
    let bad = released("3", shell("m", "exit 3"));
    let (_, states) = tokio::join!(runtime.apply(vec![slow]), async {
        until_state(&runtime, "m", |r| r.release == "2" && r.pid.is_some()).await;
        runtime.apply(vec![bad]).await.unwrap()
    });
    let back = report(&states, "m");
    assert_eq!(back.release, "1");
    let reason = back.reason.unwrap();
    assert!(
        reason.starts_with("release 3: exited with status 3"),
        "{reason}"
    );
}

#[tokio::test]
async fn a_replacement_the_disk_has_no_room_for_leaves_what_runs_alone() {
    let host = TestHost::new();
    let runtime = host.open().await;
    let first = runtime.apply(vec![sleeper("m")]).await.unwrap();
    // The next record's place is taken, as good as a full disk.
    let taken = host.dir().join("m/state.tmp");
    fs::create_dir(&taken).unwrap();
    let second = || vec![released("2", sleeper("m"))];
    let refused = runtime.apply(second()).await.unwrap_err();
    assert!(matches!(refused, RuntimeError::File { .. }), "{refused:?}");
    let stays = report(&runtime.states(), "m");
    assert_eq!(stays.state, ModuleState::Failed);
    assert_eq!(
        (stays.pid, stays.release.as_str()),
        (Some(pid(&first, "m")), "1")
    );
    assert!(stays.reason.unwrap().contains("state.json"));
    assert!(runs(pid(&first, "m")));
    // Once there is room it is replaced, without another order.
    fs::remove_dir(&taken).unwrap();
    until_state(&runtime, "m", |r| {
        r.release == "2" && r.state == ModuleState::Running
    })
    .await;
}

#[tokio::test]
async fn a_record_that_somebody_removed_is_written_again_and_counted() {
    let host = TestHost::new();
    let runtime = host.open().await;
    let first = runtime.apply(vec![sleeper("m")]).await.unwrap();
    let record = host.dir().join("m/state.json");
    fs::remove_dir_all(host.dir().join("m")).unwrap();
    let repaired = until_state(&runtime, "m", |r| r.repairs == 1).await;
    assert_eq!(
        (repaired.pid, repaired.restarts),
        (Some(pid(&first, "m")), 0)
    );
    assert!(record.exists());
    drop(runtime);

    // Removed while no agent was there: nobody can say what runs, so it is started anew.
    fs::remove_file(&record).unwrap();
    let runtime = host.open().await;
    let states = runtime.apply(vec![sleeper("m")]).await.unwrap();
    assert!(!runs(pid(&first, "m")) && runs(pid(&states, "m")));
    assert_eq!(report(&states, "m").repairs, 1);
}

#[tokio::test]
async fn a_healthy_module_is_neither_restarted_nor_judged_anew_by_another_agent() {
    let host = TestHost::new();
    touch(&host, "m", "ready");
    let desired = || vec![asked("ready", 200, sleeper("m"))];
    let runtime = host.open().await;
    let first = runtime.apply(desired()).await.unwrap();
    drop(runtime);
    // Unhealthy for a moment: of one on trial that would be the end.
    fs::remove_file(host.dir().join("m/files/ready")).unwrap();
    let runtime = host.open().await;
    let states = runtime.apply(desired()).await.unwrap();
    assert_eq!(report(&states, "m"), report(&first, "m"));
    touch(&host, "m", "ready");
}

#[tokio::test]
async fn what_a_killed_agent_had_on_trial_is_judged_by_the_next_and_gives_way() {
    let host = TestHost::new();
    let mut agent = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "converging::an_agent_that_waits_to_be_killed",
            "--nocapture",
        ])
        .env(AGENT_DIR, host.dir())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(agent.stdout.take().unwrap()).lines();
    let trial: u32 = lines
        .find_map(|line| line.unwrap().strip_prefix("tries ")?.parse().ok())
        .expect("the agent says what it tries");
    agent.kill().unwrap();
    agent.wait().unwrap();
    assert!(runs(trial));

    let (runtime, adopted) = host.try_open().await.unwrap();
    assert_eq!(adopted.len(), 1);
    let found = report(&runtime.states(), "m");
    assert_eq!(
        (found.state, found.pid),
        (ModuleState::Starting, Some(trial))
    );
    let applying = runtime.apply(vec![asked("never", 300, released("2", sleeper("m")))]);
    let states = applying.await.unwrap();
    let back = report(&states, "m");
    assert_eq!(
        (back.release.as_str(), back.state),
        ("1", ModuleState::Running)
    );
    assert!(back.reason.unwrap().contains("release 1 runs again"));
    assert!(!runs(trial));
    runtime.stop_all().await.unwrap();
}

/// The other side of the test above; without a directory there is nothing for it to do.
#[tokio::test]
async fn an_agent_that_waits_to_be_killed() {
    let Some(dir) = std::env::var_os(AGENT_DIR) else {
        return;
    };
    let (runtime, _) = ProcessRuntime::open(config(dir.as_ref())).await.unwrap();
    runtime.apply(vec![sleeper("m")]).await.unwrap();
    let slow = asked("never", 300, released("2", sleeper("m")));
    let mut slow = slow;
    if let Some(health) = &mut slow.workload.health {
        health.within = 600_000;
    }
    let trying = until_state(&runtime, "m", |r| r.release == "2" && r.pid.is_some());
    let (_, ()) = tokio::join!(runtime.apply(vec![slow]), async {
        println!("\ntries {}", trying.await.pid.unwrap());
    });
}

#[tokio::test]
async fn what_a_module_says_is_read_line_by_line() {
    let host = TestHost::new();
    let runtime = host.open().await;
    let module = "m".parse().unwrap();
    let tail = Tail {
        lines: 2,
        follow: true,
    };
    let none = runtime.logs(&module, tail).unwrap_err();
    assert!(matches!(none, RuntimeError::NoLog { .. }), "{none}");
    let script = "echo one; echo two; echo three; until test -e go; do sleep 0.01; done; echo four; exec sleep 300";
    runtime.apply(vec![shell("m", script)]).await.unwrap();
    until("said", || host.log("m").contains("three")).await;
    let mut logs = runtime.logs(&module, tail).unwrap();
    for expected in ["two", "three"] {
        assert_eq!(
            logs.next().await.unwrap().unwrap().bytes,
            expected.as_bytes()
        );
    }
    touch(&host, "m", "go");
    assert_eq!(logs.next().await.unwrap().unwrap().bytes, b"four");
}
