//! What is desired runs, what is not does not, and what did not change is not touched.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use mesh_model::ModuleState;
use mesh_runtime::RuntimeError;

use crate::host::{
    TestHost, command, marked, pid, report, runs, shell, sleeper, until, until_state,
};

#[tokio::test]
async fn what_did_not_change_keeps_its_process_and_what_did_gets_a_new_one() {
    let host = TestHost::new();
    let runtime = host.open().await;
    let first = runtime
        .apply(vec![sleeper("kept"), sleeper("changed"), sleeper("gone")])
        .await
        .unwrap();
    let mut changed = sleeper("changed");
    changed.workload.release = "2".to_owned();
    let second = runtime
        .apply(vec![sleeper("kept"), changed, sleeper("new")])
        .await
        .unwrap();

    assert_eq!(pid(&second, "kept"), pid(&first, "kept"));
    assert_ne!(pid(&second, "changed"), pid(&first, "changed"));
    assert_eq!(report(&second, "changed").release, "2");
    assert!(!runs(pid(&first, "changed")) && !runs(pid(&first, "gone")));
    assert!(runs(pid(&second, "new")));
    assert_eq!(second.len(), 3);

    runtime.stop_all().await.unwrap();
    assert!(runtime.states().is_empty());
    for module in ["kept", "changed", "new"] {
        assert!(!runs(pid(&second, module)));
        assert!(!host.dir().join(module).join("state.json").exists());
    }
}

#[tokio::test]
async fn a_change_of_what_the_agent_adds_restarts_nothing_and_counts_at_the_next_start() {
    let host = TestHost::new();
    let runtime = host.open().await;
    let show = |bus: &str| {
        let mut desired = shell("mailer", "echo bus=$MESH_BUS_URL; exec sleep 300");
        desired
            .extra_env
            .insert("MESH_BUS_URL".to_owned(), bus.to_owned());
        desired
    };
    let before = runtime.apply(vec![show("one")]).await.unwrap();
    let after = runtime.apply(vec![show("two")]).await.unwrap();
    assert_eq!(pid(&before, "mailer"), pid(&after, "mailer"));
    until("said", || host.log("mailer").contains("bus=one")).await;
    crate::host::kill(pid(&after, "mailer"));
    until("said again", || host.log("mailer").contains("bus=two")).await;
}

#[tokio::test]
async fn modules_start_in_the_order_of_after() {
    let host = TestHost::new();
    let runtime = host.open().await;
    // Each says whether it finds the record of the one before it to say that it runs.
    let script = |earlier: &str| {
        let state = host.dir().join(earlier).join("state.json");
        format!(
            "grep -q running {} && echo in order; exec sleep 300",
            state.display()
        )
    };
    let mut a = shell("a", &script("b"));
    a.workload.after.insert("b".parse().unwrap());
    let mut b = shell("b", &script("c"));
    b.workload.after.insert("c".parse().unwrap());
    runtime.apply(vec![a, b, sleeper("c")]).await.unwrap();
    for module in ["a", "b"] {
        until("in order", || host.log(module).contains("in order")).await;
    }
}

#[tokio::test]
async fn a_process_is_given_what_was_declared_and_nothing_of_the_agents_secrets() {
    let host = TestHost::new();
    let runtime = host.open().await;
    runtime
        .apply(vec![shell(
            "mailer",
            "env; echo to stderr >&2; exec sleep 300",
        )])
        .await
        .unwrap();
    until("said", || host.log("mailer").contains("to stderr")).await;
    let log = host.log("mailer");
    let mut names: Vec<_> = log
        .lines()
        .filter_map(|line| Some(line.split_once('=')?.0))
        .collect();
    names.retain(|name| !["PWD", "SHLVL", "_", "OLDPWD"].contains(name));
    names.sort_unstable();
    assert_eq!(names, ["LOG", "MESH_INSTANCE", "MESH_MODULE", "PATH"]);
}

#[tokio::test]
async fn what_is_kept_of_an_instance_is_its_owners_alone_and_holds_no_secret() {
    let host = TestHost::new();
    let runtime = host.open().await;
    let mut desired = sleeper("mailer");
    desired
        .extra_env
        .insert("MESH_CREDS".to_owned(), "tadpole".to_owned());
    assert!(!format!("{desired:?}").contains("tadpole"));
    runtime.apply(vec![desired]).await.unwrap();
    for (name, mode) in [("", 0o700), ("state.json", 0o600), ("log", 0o600)] {
        let path = host.dir().join("mailer").join(name);
        let found = fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        assert_eq!(found, mode, "{}", path.display());
    }
    let state = fs::read_to_string(host.dir().join("mailer/state.json")).unwrap();
    for secret in ["tadpole", "swordfish", "sealed"] {
        assert!(!state.contains(secret), "{state}");
    }
}

#[tokio::test]
async fn a_log_that_grew_too_long_is_put_aside_at_the_next_start() {
    let host = TestHost::new();
    let runtime = host.open().await;
    let dir = host.dir().join("mailer");
    fs::create_dir_all(&dir).unwrap();
    fs::File::create(dir.join("log"))
        .unwrap()
        .set_len(10 * 1024 * 1024 + 1)
        .unwrap();
    runtime
        .apply(vec![shell("mailer", "echo new; exec sleep 300")])
        .await
        .unwrap();
    until("said", || host.log("mailer") == "new\n").await;
    assert!(dir.join("log.1").exists());
}

#[tokio::test]
async fn a_log_does_not_grow_for_ever_while_its_module_runs() {
    let host = TestHost::new();
    let runtime = host.open().await;
    let script = "head -c 10485761 /dev/zero; echo; echo last; until test -e go; do sleep 0.01; done; echo new; \
                  exec sleep 300";
    let states = runtime.apply(vec![shell("loud", script)]).await.unwrap();
    let dir = host.dir().join("loud");
    let length = |name: &str| fs::metadata(dir.join(name)).map_or(0, |file| file.len());
    until("it is shortened", || {
        length("log.1") > 0 && length("log") == 0
    })
    .await;
    assert_eq!(length("log.1"), 10 * 1024 * 1024);
    assert!(fs::read(dir.join("log.1")).unwrap().ends_with(b"\nlast\n"));
    // It goes on writing, from the beginning.
    fs::write(dir.join("files/go"), "").unwrap();
    until("it goes on", || host.log("loud") == "new\n").await;
    assert_eq!(pid(&states, "loud"), pid(&runtime.states(), "loud"));
}

#[tokio::test]
async fn an_instance_works_in_a_directory_of_its_own_that_stays() {
    let host = TestHost::new();
    let runtime = host.open().await;
    let desired = || vec![shell("mailer", "pwd; ls; touch state.json; exec sleep 300")];
    let states = runtime.apply(desired()).await.unwrap();
    let files = fs::canonicalize(host.dir()).unwrap().join("mailer/files");
    let said = format!("{}\n", files.display());
    until("said", || {
        host.log("mailer") == said && files.join("state.json").exists()
    })
    .await;
    crate::host::kill(pid(&states, "mailer"));
    let again = format!("{said}{said}state.json\n");
    until("said again", || host.log("mailer") == again).await;
}

#[tokio::test]
async fn a_directory_others_have_access_to_is_closed_to_them() {
    let host = TestHost::new();
    let dirs = [host.dir(), host.dir().join("mailer")];
    fs::create_dir_all(&dirs[1]).unwrap();
    for dir in &dirs {
        fs::set_permissions(dir, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let runtime = host.open().await;
    runtime.apply(vec![sleeper("mailer")]).await.unwrap();
    for dir in &dirs {
        let mode = fs::metadata(dir).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o700, "{}", dir.display());
    }
}

#[tokio::test]
async fn a_program_that_is_not_there_is_reported_and_started_once_it_is() {
    let host = TestHost::new();
    let runtime = host.open().await;
    let program = host.path("late");
    let argv = [program.to_str().unwrap(), "300"];
    let states = runtime
        .apply(vec![command("late", &argv), sleeper("other")])
        .await
        .unwrap();
    let failed = report(&states, "late");
    assert_eq!((failed.state, failed.pid), (ModuleState::Failed, None));
    assert!(failed.reason.unwrap().contains("was not found"));
    assert!(runs(pid(&states, "other")));

    fs::write(&program, "").unwrap();
    let refused = until_state(&runtime, "late", |r| {
        r.reason
            .as_ref()
            .is_some_and(|r| r.contains("may not be executed"))
    })
    .await;
    assert_eq!(refused.state, ModuleState::Failed);

    fs::remove_file(&program).unwrap();
    std::os::unix::fs::symlink("/bin/sleep", &program).unwrap();
    let started = until_state(&runtime, "late", |r| r.state == ModuleState::Running).await;
    assert_eq!((started.restarts, started.reason), (0, None));
}

#[tokio::test]
async fn a_record_that_cannot_be_written_starts_nothing_and_is_named() {
    let host = TestHost::new();
    let runtime = host.open().await;
    // The place of its directory is taken, as good as a full disk.
    fs::write(host.dir().join("mailer"), "").unwrap();
    let refused = runtime
        .apply(vec![sleeper("mailer"), sleeper("other")])
        .await
        .unwrap_err();
    assert!(matches!(refused, RuntimeError::File { .. }), "{refused:?}");
    assert!(
        refused
            .to_string()
            .contains(host.dir().join("mailer").to_str().unwrap()),
        "{refused}"
    );
    let states = runtime.states();
    assert_eq!(report(&states, "mailer").state, ModuleState::Failed);
    assert!(runs(pid(&states, "other")));

    fs::remove_file(host.dir().join("mailer")).unwrap();
    until_state(&runtime, "mailer", |r| r.state == ModuleState::Running).await;
}

#[tokio::test]
async fn a_process_whose_identity_cannot_be_written_is_ended_again() {
    let host = TestHost::new();
    let runtime = host.open().await;
    let dir = host.dir().join("mailer");
    fs::create_dir_all(&dir).unwrap();
    // A log that nobody reads yet holds the start between the record that says it begins and the one that says who.
    let fifo = std::process::Command::new("mkfifo")
        .arg(dir.join("log"))
        .status()
        .unwrap();
    assert!(fifo.success());
    let (refused, log) = tokio::join!(runtime.apply(vec![sleeper("mailer")]), async {
        until("it begins", || dir.join("state.json").exists()).await;
        // The next record's place is taken, as good as a full disk.
        fs::create_dir(dir.join("state.tmp")).unwrap();
        fs::OpenOptions::new()
            .read(true)
            .write(true)
            .open(dir.join("log"))
            .unwrap()
    });
    assert!(
        matches!(refused, Err(RuntimeError::File { .. })),
        "{refused:?}"
    );
    assert_eq!(
        report(&runtime.states(), "mailer").state,
        ModuleState::Failed
    );
    let id = fs::read_to_string(host.dir().join("runtime.id")).unwrap();
    assert_eq!(marked(&format!("MESH_INSTANCE={id}")), []);

    fs::remove_dir(dir.join("state.tmp")).unwrap();
    until_state(&runtime, "mailer", |r| r.state == ModuleState::Running).await;
    drop(log);
}

#[tokio::test]
async fn of_two_orders_the_newer_counts_and_a_dropped_one_is_carried_out() {
    let host = TestHost::new();
    let runtime = host.open().await;
    let (first, second) = tokio::join!(
        runtime.apply(vec![sleeper("a"), sleeper("b")]),
        runtime.apply(vec![sleeper("b"), sleeper("c")]),
    );
    assert_eq!(first.unwrap(), second.unwrap());
    let names: Vec<_> = runtime.states().keys().map(ToString::to_string).collect();
    assert_eq!(names, ["b", "c"]);

    let dropped =
        tokio::time::timeout(std::time::Duration::ZERO, runtime.apply(vec![sleeper("d")])).await;
    assert!(dropped.is_err());
    until_state(&runtime, "d", |r| r.state == ModuleState::Running).await;
    until("only d", || runtime.states().len() == 1).await;
}

#[tokio::test]
async fn one_that_ignores_the_request_to_end_is_killed_after_the_grace_with_all_of_its_group() {
    let host = TestHost::new();
    let runtime = host.open().await;
    let script = "trap '' TERM; (while :; do sleep 1; done) & echo $!; while :; do sleep 1; done";
    let states = runtime
        .apply(vec![shell("stubborn", script)])
        .await
        .unwrap();
    until("its child is known", || {
        host.log("stubborn").ends_with('\n')
    })
    .await;
    let child: u32 = host.log("stubborn").trim().parse().unwrap();
    assert!(runs(child));
    let began = tokio::time::Instant::now();
    runtime.apply(vec![]).await.unwrap();
    assert!(began.elapsed() >= std::time::Duration::from_millis(400));
    assert!(!runs(child) && !runs(pid(&states, "stubborn")));
}

#[tokio::test]
async fn one_that_ends_when_asked_is_given_the_time_to_say_so() {
    let host = TestHost::new();
    let runtime = host.open().await;
    let script = "trap 'echo bye; exit 0' TERM; echo ready; while :; do sleep 0.05; done";
    runtime.apply(vec![shell("polite", script)]).await.unwrap();
    until("ready", || host.log("polite").contains("ready")).await;
    runtime.apply(vec![]).await.unwrap();
    assert!(host.log("polite").ends_with("bye\n"));
}
