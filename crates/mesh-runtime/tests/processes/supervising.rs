//! What ends is started again as its manifest says, and leaves nothing behind.

use std::fs;

use mesh_model::{ModuleState, Restart};
use mesh_runtime::RuntimeError;

use crate::host::{
    TestHost, kill, pid, report, runs, shell, sleeper, state, until, until_state, with_restart,
};

#[tokio::test]
async fn a_crash_loop_backs_off_and_says_why() {
    let host = TestHost::new();
    let runtime = host.open().await;
    runtime.apply(vec![shell("loop", "exit 3")]).await.unwrap();
    let waiting = until_state(&runtime, "loop", |r| r.state == ModuleState::Backoff).await;
    assert_eq!(waiting.reason.as_deref(), Some("exited with status 3"));
    assert_eq!(waiting.pid, None);
    until_state(&runtime, "loop", |r| r.restarts == 3).await;
    // It may be removed in the middle of it.
    runtime.apply(vec![]).await.unwrap();
    assert!(runtime.states().is_empty());
}

#[tokio::test]
async fn one_that_is_killed_is_started_again_and_counted() {
    let host = TestHost::new();
    let runtime = host.open().await;
    let states = runtime.apply(vec![sleeper("mailer")]).await.unwrap();
    kill(pid(&states, "mailer"));
    let waiting = until_state(&runtime, "mailer", |r| r.state == ModuleState::Backoff).await;
    assert_eq!(waiting.reason.as_deref(), Some("killed by signal 9"));
    let again = until_state(&runtime, "mailer", |r| r.state == ModuleState::Running).await;
    assert_eq!(again.restarts, 1);
    assert_ne!(again.pid, Some(pid(&states, "mailer")));
}

#[tokio::test]
async fn what_ended_for_good_is_not_started_again_by_a_declaration_nor_by_another_agent() {
    let host = TestHost::new();
    let desired = || {
        vec![
            with_restart(shell("once", "echo ran; exit 1"), Restart::Never),
            with_restart(shell("done", "echo ran"), Restart::OnFailure),
        ]
    };
    let runtime = host.open().await;
    runtime.apply(desired()).await.unwrap();
    for (module, status) in [("once", 1), ("done", 0)] {
        let ended = until_state(&runtime, module, |r| r.state == ModuleState::Ended).await;
        assert_eq!(ended.reason, Some(format!("exited with status {status}")));
        // The record is written after the state is said.
        let record = host.dir().join(module).join("state.json");
        until("recorded", || {
            fs::read_to_string(&record).unwrap().contains("ended")
        })
        .await;
    }
    runtime.apply(desired()).await.unwrap();
    drop(runtime);
    let runtime = host.open().await;
    let states = runtime.apply(desired()).await.unwrap();
    for module in ["once", "done"] {
        assert_eq!(report(&states, module).state, ModuleState::Ended);
        assert_eq!(host.log(module), "ran\n");
    }
}

#[tokio::test]
async fn on_failure_starts_again_what_failed() {
    let host = TestHost::new();
    let runtime = host.open().await;
    let flag = host.path("flag");
    let script = format!("test -e {0} && exit 0; touch {0}; exit 7", flag.display());
    runtime
        .apply(vec![with_restart(
            shell("job", &script),
            Restart::OnFailure,
        )])
        .await
        .unwrap();
    let ended = until_state(&runtime, "job", |r| r.state == ModuleState::Ended).await;
    assert_eq!(ended.restarts, 1);
}

#[tokio::test]
async fn what_ended_is_reaped_and_what_it_left_is_ended_before_the_next_start() {
    let host = TestHost::new();
    let runtime = host.open().await;
    let states = runtime
        .apply(vec![shell("parent", "sleep 300 & echo $!; wait")])
        .await
        .unwrap();
    until("its child is known", || host.log("parent").ends_with('\n')).await;
    let child: u32 = host.log("parent").trim().parse().unwrap();
    let parent = pid(&states, "parent");
    kill(parent);
    until_state(&runtime, "parent", |r| {
        r.restarts == 1 && r.state == ModuleState::Running
    })
    .await;
    assert_eq!(state(parent), None, "it is still there to be reaped");
    assert!(!runs(child), "what it left meets the next");
    let next = pid(&runtime.states(), "parent");
    runtime.apply(vec![]).await.unwrap();
    assert_eq!(state(next), None, "it is still there to be reaped");
}

#[tokio::test(start_paused = true)]
async fn one_that_outlasts_its_stop_is_reaped_once_it_ends() {
    let host = TestHost::new();
    let runtime = host.open().await;
    let stubborn = || shell("stubborn", "trap '' TERM; while :; do sleep 1; done");
    // While time is paused, a grace is over at once; a kernel that ends a process in less is tried again.
    let outlasts = async || {
        let states = runtime.apply(vec![stubborn()]).await.unwrap();
        let refused = runtime.apply(vec![]).await.err()?;
        assert!(
            matches!(refused, RuntimeError::Unkillable { .. }),
            "{refused:?}"
        );
        Some(pid(&states, "stubborn"))
    };
    let mut left = None;
    for _ in 0..20 {
        left = outlasts().await;
        if left.is_some() {
            break;
        }
    }
    let left = left.expect("a stop was outlasted");
    tokio::time::resume();
    until("it is reaped", || state(left).is_none()).await;
}
