//! What went wrong in other people's production with what agents run, and does not with processes.
//!
//! `mesh-derive/tests/cases/hand.json` has the cases; a test is named after the one it holds. Those about containers wait
//! for a runtime of containers.

use std::fs;

use mesh_model::ModuleState;

use crate::host::{TestHost, command, kill, pid, report, runs, shell, sleeper, until};

/// What a process is given under this name, when the declaration says so.
async fn given(value: &str) -> Vec<u8> {
    let host = TestHost::new();
    let runtime = host.open().await;
    let script = "cat /proc/self/environ >environ; echo done; exec sleep 300";
    let mut desired = shell("m", script);
    desired.workload.env = [("VALUE".to_owned(), value.to_owned())].into();
    runtime.apply(vec![desired]).await.unwrap();
    until("written", || host.log("m").contains("done")).await;
    let environ = fs::read(host.dir().join("m/files/environ")).unwrap();
    let mut entries = environ.split(|byte| *byte == 0);
    let entry = entries.find_map(|entry| entry.strip_prefix(b"VALUE="));
    entry.unwrap().to_vec()
}

/// A `$` in a value is expanded: a password is cut.
/// <https://github.com/docker/compose/issues/11058>
#[tokio::test]
async fn case_c_9b0a490_a_dollar_in_a_value_arrives() {
    for value in ["abc$def", "$HOME", "${LOG}", "a$$b", "`id`", "\"q'"] {
        assert_eq!(given(value).await, value.as_bytes());
    }
}

/// A value of several lines cannot be handed over in a file of variables.
/// <https://github.com/moby/moby/issues/12997>
#[tokio::test]
async fn case_c_bb7650b_a_value_of_several_lines_arrives() {
    let certificate = "-----BEGIN\nline2\n\n-----END\n";
    assert_eq!(given(certificate).await, certificate.as_bytes());
}

/// A value ends at its first space.
/// <https://github.com/docker/compose/issues/3240>
#[tokio::test]
async fn case_c_48ab485_a_value_with_spaces_arrives() {
    for value in ["foo bar", " both ends ", "tab\there", ""] {
        assert_eq!(given(value).await, value.as_bytes());
    }
}

/// The agent's own environment, a password in it, is found in what it runs.
/// <https://github.com/moghtech/komodo/issues/257>
#[tokio::test]
async fn case_c_82e10fd_nothing_of_the_agents_environment_is_given_or_filled_in() {
    // `AGENT_SECRET` is in the agent's.
    assert_eq!(given("${AGENT_SECRET}").await, b"${AGENT_SECRET}");
    let host = TestHost::new();
    let runtime = host.open().await;
    runtime
        .apply(vec![shell("m", "env; echo done; exec sleep 300")])
        .await
        .unwrap();
    until("said", || host.log("m").contains("done")).await;
    assert!(!host.log("m").contains("swordfish"), "{}", host.log("m"));
}

/// A secret that is found in a command is written over, and another path is used.
/// <https://github.com/moghtech/komodo/issues/296>
#[tokio::test]
async fn case_c_56e6108_the_words_of_a_command_arrive_as_they_are() {
    let host = TestHost::new();
    let runtime = host.open().await;
    let words = ["two words", "$LOG", "swordfish", "*", "a;b"];
    let script = "for word; do echo \"<$word>\"; done; echo done; exec sleep 300";
    let mut argv = vec!["sh", "-c", script, "sh"];
    argv.extend(words);
    runtime.apply(vec![command("m", &argv)]).await.unwrap();
    until("said", || host.log("m").contains("done")).await;
    let expected = words.map(|word| format!("<{word}>"));
    let log = host.log("m");
    assert!(
        log.lines()
            .eq(expected.iter().map(String::as_str).chain(["done"])),
        "{log}"
    );
}

/// What is remembered no longer exists, and the agent refuses to start.
/// <https://github.com/hashicorp/nomad/issues/159>
#[tokio::test]
async fn case_c_71f96e7_an_agent_starts_although_what_it_remembers_is_gone() {
    let host = TestHost::new();
    let runtime = host.open().await;
    let before = runtime.apply(vec![sleeper("m")]).await.unwrap();
    drop(runtime);
    kill(pid(&before, "m"));
    until("gone", || !runs(pid(&before, "m"))).await;
    let (runtime, adopted) = host.try_open().await.unwrap();
    assert_eq!(adopted, []);
    let after = runtime.apply(vec![sleeper("m")]).await.unwrap();
    assert!(runs(pid(&after, "m")));
}

/// What ended while the agent was away is shown as running.
/// <https://github.com/hashicorp/nomad/issues/627>
#[tokio::test]
async fn case_c_b6c6f73_what_ended_while_the_agent_was_away_is_not_called_running() {
    let host = TestHost::new();
    let runtime = host.open().await;
    let before = runtime.apply(vec![sleeper("m")]).await.unwrap();
    drop(runtime);
    kill(pid(&before, "m"));
    until("gone", || !runs(pid(&before, "m"))).await;
    let runtime = host.open().await;
    let found = report(&runtime.states(), "m");
    assert_ne!(found.state, ModuleState::Running);
    assert_eq!(found.pid, None);
}

/// It ended between the request to stop it and the next step, and everything after that fails.
/// <https://github.com/containrrr/watchtower/issues/235>
#[tokio::test]
async fn case_c_7d5125c_what_is_gone_already_counts_as_removed() {
    let host = TestHost::new();
    let runtime = host.open().await;
    let before = runtime.apply(vec![sleeper("m")]).await.unwrap();
    kill(pid(&before, "m"));
    let mut changed = sleeper("m");
    changed.workload.release = "2".to_owned();
    let after = runtime.apply(vec![changed]).await.unwrap();
    assert_eq!(report(&after, "m").release, "2");
    kill(pid(&runtime.states(), "m"));
    assert!(runtime.apply(vec![]).await.unwrap().is_empty());
}

/// The new one is started before the old one has ended: its name is still in use.
/// <https://github.com/eclipse-ankaios/ankaios/issues/261>
#[tokio::test]
async fn case_c_9f1c637_the_new_one_begins_when_the_old_one_has_ended() {
    let host = TestHost::new();
    let runtime = host.open().await;
    // Each notes when it begins, and when it ends; the old one takes its time.
    let script =
        "trap 'sleep 0.2; echo old ends; exit' TERM; echo old begins; while :; do sleep 0.02; done";
    runtime.apply(vec![shell("m", script)]).await.unwrap();
    until("it runs", || host.log("m").contains("old begins")).await;
    let new = shell("m", "echo new begins; exec sleep 300");
    runtime.apply(vec![new]).await.unwrap();
    until("the new one", || host.log("m").contains("new begins")).await;
    let log = host.log("m");
    let noted: Vec<_> = log.lines().filter(|line| line.contains(' ')).collect();
    assert_eq!(noted, ["old begins", "old ends", "new begins"]);
}

/// The log of one module grew until the disk was full.
/// <https://github.com/hashicorp/nomad/issues/5782>
#[tokio::test]
async fn case_c_f6cbc7b_a_log_stays_below_its_limit_while_its_module_writes() {
    let host = TestHost::new();
    let runtime = host.open().await;
    let limit = 10 * 1024 * 1024;
    let script = format!("head -c {} /dev/zero; exec sleep 300", 2 * limit);
    runtime.apply(vec![shell("m", &script)]).await.unwrap();
    let length =
        |name: &str| fs::metadata(host.dir().join("m").join(name)).map_or(0, |file| file.len());
    until("it is shortened", || {
        length("log.1") > 0 && length("log") == 0
    })
    .await;
    assert!(length("log.1") <= limit, "{}", length("log.1"));
}

/// A newer agent adds a field, and everything it runs is restarted.
/// <https://github.com/kubernetes/kubernetes/issues/53644>
#[tokio::test]
async fn case_d_9cb80be_another_agent_that_adds_more_restarts_nothing() {
    let host = TestHost::new();
    let runtime = host.open().await;
    let before = runtime.apply(vec![sleeper("m")]).await.unwrap();
    drop(runtime);
    let runtime = host.open().await;
    let mut more = sleeper("m");
    more.extra_env
        .insert("MESH_NEWER".to_owned(), "1".to_owned());
    let after = runtime.apply(vec![more]).await.unwrap();
    assert_eq!(pid(&after, "m"), pid(&before, "m"));
    assert_eq!(report(&after, "m").restarts, 0);
}

/// The backoff begins anew after each short success, so nothing ever waits for long.
/// <https://github.com/elastic/elastic-agent/pull/13874>
#[tokio::test]
async fn case_d_18d37ac_a_short_run_does_not_begin_the_backoff_anew() {
    let host = TestHost::new();
    let runtime = host.open().await;
    // It runs each time, for far less than what counts as healthy.
    let script = "date +%s%N >>began; sleep 0.02; exit 1";
    runtime.apply(vec![shell("m", script)]).await.unwrap();
    let began = || {
        let text = fs::read_to_string(host.dir().join("m/files/began")).unwrap_or_default();
        let times = text.lines().map(|line| line.parse::<u64>().unwrap());
        times.collect::<Vec<_>>()
    };
    until("it was started often", || began().len() >= 6).await;
    let began = began();
    let waits: Vec<u64> = began.windows(2).map(|pair| pair[1] - pair[0]).collect();
    // At most 160 ms, of which half at least is waited; the first wait is at most 40.
    let late = waits.iter().skip(3).min().unwrap();
    assert!(*late >= 80_000_000, "{waits:?}");
}

/// A new release crashes again and again, and nothing goes back.
/// <https://github.com/containrrr/watchtower/issues/90>
#[tokio::test]
async fn case_c_3e010d9_a_release_that_crashes_gives_way_to_the_one_that_was_good() {
    let host = TestHost::new();
    let runtime = host.open().await;
    let first = runtime.apply(vec![sleeper("m")]).await.unwrap();
    let mut broken = shell("m", "echo starts; exit 3");
    broken.workload.release = "2".to_owned();
    let states = runtime.apply(vec![broken.clone()]).await.unwrap();
    // Three times, and no more.
    assert_eq!(host.log("m"), "starts\n".repeat(3));
    let back = report(&states, "m");
    let reason = "release 2: exited with status 3; release 1 runs again";
    assert_eq!(back.reason.as_deref(), Some(reason));
    assert_eq!((back.release.as_str(), back.restarts), ("1", 0));
    assert!(runs(pid(&states, "m")) && !runs(pid(&first, "m")));
    runtime.apply(vec![broken]).await.unwrap();
    assert_eq!(pid(&runtime.states(), "m"), pid(&states, "m"));
    assert_eq!(host.log("m").lines().count(), 3);
}

/// Each change is carried out by itself, and on the way there is too much of some things.
/// <https://github.com/wasmCloud/wadm/pull/112>
#[tokio::test]
async fn case_c_39c6c9c_twenty_orders_in_a_row_end_at_the_last_with_nothing_started_twice() {
    let host = TestHost::new();
    let runtime = host.open().await;
    let names: Vec<_> = (0..20).map(|n| format!("m-{n}")).collect();
    let one = |name: &String| shell(name, "echo began; exec sleep 300");
    let orders = (1..=20).map(|count| runtime.apply(names[..count].iter().map(one).collect()));
    // Each is given before the next, and none is waited for before the last.
    let mut given: Vec<_> = orders.map(Box::pin).collect();
    let last = given.pop().unwrap();
    for order in &mut given {
        let waker = std::task::Waker::noop();
        let mut context = std::task::Context::from_waker(waker);
        assert!(order.as_mut().poll(&mut context).is_pending());
        tokio::task::yield_now().await;
    }
    let states = last.await.unwrap();
    assert_eq!(states.len(), 20);
    for name in &names {
        assert!(runs(pid(&states, name)));
        until("it began", || !host.log(name).is_empty()).await;
        assert_eq!(host.log(name), "began\n", "{name}");
    }
    for order in given {
        assert_eq!(order.await.unwrap(), states);
    }
}
