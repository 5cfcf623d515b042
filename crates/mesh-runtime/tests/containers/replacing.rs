//! One release in place of another: the new one beside the old where it fits, and the old one back where it is bad.

use std::time::Duration;

use mesh_model::{Container, Health, ModuleState, Probe, PublicKey, Restart};

use crate::engine::{Engine, Quirk};
use crate::host::{Host, change, until, wants};

type Declared = fn(&mut Container);

/// A new version breaks, and nothing goes back.
/// <https://github.com/containrrr/watchtower/issues/90>
#[tokio::test]
async fn case_c_3e010d9_a_release_that_crashes_gives_way_to_the_one_before() {
    for beside in [true, false] {
        let engine = Engine::start();
        engine.delivers("shop:1", vec![]);
        engine.delivers("shop:2", vec![]);
        engine.change(|world| world.crashes.insert("shop:2".to_owned(), 1));
        let ports: std::collections::BTreeSet<_> = if beside {
            [].into()
        } else {
            ["8080:80".parse().unwrap()].into()
        };
        let wanted = |release: &str, image: &str| {
            let mut wanted = wants("m", release, image);
            change(&mut wanted, |it| it.ports.clone_from(&ports));
            wanted
        };
        let host = Host::open(&engine).await;
        host.apply([wanted("1", "shop:1")]).await;
        let old = engine.only("m");
        host.apply([wanted("2", "shop:2")]).await;
        let text = "release 2: exited with status 1; release 1 runs again";
        let report = host
            .until("m", |it| {
                it.state == ModuleState::Running && it.reason.as_deref() == Some(text)
            })
            .await;
        assert_eq!(report.release, "1");
        let now = engine.only("m");
        assert_eq!((&now.id, now.state), (&old.id, "running"));
        assert_eq!(now.starts, if beside { 1 } else { 2 });

        // It is not tried again: neither by another order that says the same, nor by another agent.
        let made = engine.asked("POST /containers/create");
        host.apply([wanted("2", "shop:2")]).await;
        drop(host);
        let host = Host::open(&engine).await;
        host.apply([wanted("2", "shop:2")]).await;
        host.says("m", text).await;
        assert_eq!(engine.asked("POST /containers/create"), made);
        // Declared otherwise it is.
        engine.change(|world| world.crashes.clear());
        host.apply([wanted("3", "shop:2")]).await;
        assert_eq!(host.runs("m").await.release, "3");
    }
}

#[tokio::test]
async fn the_old_one_goes_when_the_new_one_is_good_or_before_where_both_do_not_fit() {
    let cases: [(bool, Declared); 4] = [
        (true, |_| {}),
        (true, |it| {
            it.volumes = ["/srv:/srv:ro".parse().unwrap()].into();
        }),
        (false, |it| it.network = mesh_model::Network::Host),
        // Two of it would write to the same.
        (false, |it| {
            it.volumes = ["data:/data".parse().unwrap()].into();
        }),
    ];
    for (beside, declared) in cases {
        let engine = Engine::start();
        engine.delivers("shop:1", vec![]);
        let wanted = |release: &str| {
            let mut wanted = wants("m", release, "shop:1");
            change(&mut wanted, declared);
            wanted
        };
        let host = Host::open(&engine).await;
        host.apply([wanted("1")]).await;
        let old = engine.only("m");
        // Late enough to be looked at in between.
        let late = Quirk::Late(Duration::from_millis(300));
        engine.quirk("POST", "/start", late, 1);
        let applied = host.runtime.apply(vec![wanted("2")]);
        let looked = async {
            until("the second is made", || engine.of("m").len() == 2).await;
            until("the second is started", || engine.asked("/start") == 2).await;
            let now = engine.of("m").into_iter().find(|it| it.id == old.id);
            let expected = if beside { "running" } else { "exited" };
            assert_eq!(now.unwrap().state, expected);
        };
        let (applied, ()) = tokio::join!(applied, looked);
        applied.unwrap();
        assert_eq!(host.runs("m").await.release, "2");
        until("the first is gone", || engine.of("m").len() == 1).await;
        assert_ne!(engine.only("m").id, old.id);
    }
}

#[tokio::test]
async fn a_release_that_is_not_healthy_in_time_gives_way_and_a_module_that_is_unhealthy_is_started_anew()
 {
    let engine = Engine::start();
    engine.delivers("shop:1", vec![]);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let there = listener.local_addr().unwrap().to_string();
    let asked = |release: &str, at: &str| {
        let mut wanted = wants("m", release, "shop:1");
        wanted.workload.health = Some(Health {
            probe: Probe::Tcp(at.to_owned()),
            every: 100,
            within: 500,
        });
        wanted
    };
    let host = Host::open(&engine).await;
    host.apply([asked("1", &there)]).await;
    host.runs("m").await;
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let nowhere = nobody.local_addr().unwrap().to_string();
    drop(nobody);
    host.apply([asked("2", &nowhere)]).await;
    let report = host.says("m", "release 2: not healthy within 500 ms").await;
    assert_eq!(
        (report.release.as_str(), report.state),
        ("1", ModuleState::Running)
    );

    drop(listener);
    let report = host.until("m", |it| it.restarts > 0).await;
    let how = report.last_exit.unwrap().how;
    assert!(how.starts_with("unhealthy: "), "{how}");
    assert_eq!(report.repairs, 0, "it was ended by its own agent");
}

#[tokio::test]
async fn a_replacement_that_an_agents_end_interrupts_is_finished_by_the_next() {
    let engine = Engine::start();
    engine.delivers("shop:1", vec![]);
    let host = Host::open(&engine).await;
    host.apply([wants("m", "1", "shop:1")]).await;
    engine.quirk("POST", "/start", Quirk::Hang, 1);
    {
        let applied = host.runtime.apply(vec![wants("m", "2", "shop:1")]);
        let made = until("the second is made", || engine.of("m").len() == 2);
        tokio::select! {
            _ = applied => panic!("its start hangs"),
            () = made => {}
        }
    }
    drop(host);
    let host = Host::open(&engine).await;
    host.apply([wants("m", "2", "shop:1")]).await;
    assert_eq!(host.runs("m").await.release, "2");
    until("the first is gone", || engine.of("m").len() == 1).await;
}

#[tokio::test]
async fn what_is_wanted_again_while_its_successor_is_on_trial_goes_on() {
    for (beside, later) in [(true, false), (false, false), (true, true), (false, true)] {
        let engine = Engine::start();
        engine.delivers("shop:1", vec![]);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let there = listener.local_addr().unwrap().to_string();
        let mut listener = Some(listener);
        let wanted = |release: &str| {
            let mut wanted = wants("m", release, "shop:1");
            // Whatever its own end would lead to.
            wanted.workload.restart = Restart::Never;
            // Asked once, and not again for as long as it is not put on trial.
            wanted.workload.health = Some(Health {
                probe: Probe::Tcp(there.clone()),
                every: 10_000,
                within: 150,
            });
            if !beside {
                change(&mut wanted, |it| it.network = mesh_model::Network::Host);
            }
            wanted
        };
        let mut host = Host::open(&engine).await;
        host.apply([wanted("1")]).await;
        let old = engine.only("m");
        let mut tried = wanted("2");
        tried.workload.health = Some(Health {
            probe: Probe::Tcp("127.0.0.1:1".to_owned()),
            every: 50,
            within: 60_000,
        });
        {
            let applied = host.runtime.apply(vec![tried]);
            let runs = |made: &crate::engine::Made| made.id != old.id && made.state == "running";
            let on_trial = until("it is on trial", || engine.of("m").iter().any(runs));
            tokio::select! {
                _ = applied => panic!("nobody has said that it is good"),
                () = on_trial => {}
            }
        }
        if later {
            drop(host);
            host = Host::open(&engine).await;
        }
        if beside {
            listener = None;
        }
        host.apply([wanted("1")]).await;
        let report = host.runs("m").await;
        assert_eq!(report.release, "1");
        until("the second is gone", || engine.of("m").len() == 1).await;
        let now = engine.only("m");
        let starts = if beside { 1 } else { 2 };
        assert_eq!((now.id, now.state, now.starts), (old.id, "running", starts));
        let made = engine.asked("POST /containers/create");
        host.apply([wanted("1")]).await;
        assert_eq!(engine.asked("POST /containers/create"), made);
        drop(listener);
    }
}

#[tokio::test]
async fn what_was_bad_is_tried_anew_once_something_else_was_declared() {
    for (between, later) in [("1", false), ("3", false), ("1", true), ("3", true)] {
        let engine = Engine::start();
        engine.delivers("shop:1", vec![]);
        engine.delivers("bad:1", vec![]);
        engine.change(|world| world.crashes.insert("bad:1".to_owned(), 1));
        let wanted = |release: &str| {
            let image = if release == "2" { "bad:1" } else { "shop:1" };
            wants("m", release, image)
        };
        let mut host = Host::open(&engine).await;
        host.apply([wanted("1")]).await;
        host.apply([wanted("2")]).await;
        host.says("m", "release 2: ").await;
        if later {
            drop(host);
            host = Host::open(&engine).await;
        }
        host.apply([wanted(between)]).await;
        assert_eq!(host.runs("m").await.release, between);
        if later {
            drop(host);
            host = Host::open(&engine).await;
        }
        let made = engine.asked("POST /containers/create");
        host.apply([wanted("2")]).await;
        let text = format!("exited with status 1; release {between} runs again");
        host.says("m", &text).await;
        assert_eq!(engine.asked("POST /containers/create"), made + 1);
    }
}

#[tokio::test]
async fn what_was_bad_stays_bad_with_another_credential() {
    let engine = Engine::start();
    engine.delivers("shop:1", vec![]);
    engine.delivers("bad:1", vec![]);
    engine.change(|world| world.crashes.insert("bad:1".to_owned(), 1));
    let host = Host::open(&engine).await;
    host.apply([wants("m", "1", "shop:1")]).await;
    let bad = wants("m", "2", "bad:1");
    host.apply([bad.clone()]).await;
    host.says("m", "release 1 runs again").await;
    let made = engine.asked("POST /containers/create");
    let mut rotated = bad.clone();
    rotated.workload.key = PublicKey::from_raw([1; 32]);
    rotated.workload.accepts = [bad.workload.key].into();
    host.apply([rotated.clone()]).await;
    host.says("m", "release 1 runs again").await;
    drop(host);
    let host = Host::open(&engine).await;
    host.apply([rotated.clone()]).await;
    let report = host.says("m", "release 1 runs again").await;
    assert_eq!(report.release, "1");
    assert_eq!(engine.asked("POST /containers/create"), made);
    // What may not go on with its own is made anew, and is still what was good.
    let old = engine.only("m").id;
    rotated.workload.accepts.clear();
    drop(host);
    let host = Host::open(&engine).await;
    host.apply([rotated]).await;
    until("the first is gone", || {
        engine.of("m").iter().all(|it| it.id != old)
    })
    .await;
    host.until("m", |it| it.state == ModuleState::Running).await;
    host.says("m", "release 1 runs again").await;
    assert_eq!(engine.only("m").image, "shop:1");
    assert_eq!(engine.asked("POST /containers/create"), made + 1);
}

#[tokio::test]
async fn an_agent_that_is_killed_while_it_goes_back_is_followed_by_one_that_does() {
    let engine = Engine::start();
    engine.delivers("shop:1", vec![]);
    engine.delivers("bad:1", vec![]);
    engine.change(|world| world.crashes.insert("bad:1".to_owned(), 1));
    let wanted = |release: &str, image: &str| {
        let mut wanted = wants("m", release, image);
        change(&mut wanted, |it| it.network = mesh_model::Network::Host);
        wanted.workload.restart = Restart::Never;
        wanted
    };
    let host = Host::open(&engine).await;
    host.apply([wanted("1", "shop:1")]).await;
    let old = engine.only("m");
    engine.quirk("DELETE", "/containers/", Quirk::Hang, 1);
    {
        let applied = host.runtime.apply(vec![wanted("2", "bad:1")]);
        let removing = until("it is removed", || engine.asked("DELETE /containers/") == 1);
        tokio::select! {
            _ = applied => panic!("its removal hangs"),
            () = removing => {}
        }
    }
    drop(host);
    assert_eq!(engine.of("m").len(), 2);
    let host = Host::open(&engine).await;
    let made = engine.asked("POST /containers/create");
    host.apply([wanted("2", "bad:1")]).await;
    let report = host.until("m", |it| it.state == ModuleState::Running).await;
    let text = "release 2: exited with status 1; release 1 runs again";
    assert_eq!(
        (report.release.as_str(), report.reason.as_deref()),
        ("1", Some(text))
    );
    let now = engine.only("m");
    assert_eq!((now.id, now.starts), (old.id, 2));
    assert_eq!(engine.asked("POST /containers/create"), made);
}
