//! What went wrong in other people's production at the node's end, and cannot here.

use super::*;

/// An idle consumer stops in silence, and only a restart mends it.
/// <https://github.com/nats-io/nats-server/issues/2488>
#[test]
fn case_b_73f2854_an_agent_that_hears_no_sign_of_its_consumer_listens_again_by_itself() {
    let mut rig = Rig::applied();
    let _up = rig.with(|core, now| core.handle_link(true, now));
    let mut steps = Vec::new();
    for _ in 0..13 * 120 {
        let said = rig.pass(30_000);
        steps.extend(
            said.into_iter()
                .filter(|e| matches!(e, ListenAgain | Reconnect)),
        );
    }
    assert_eq!(steps[..2], [ListenAgain, Reconnect]);
    // It goes on trying for as long as it hears nothing, and stops once it does.
    assert!(steps.len() > 1_000, "{}", steps.len());
    rig.core.handle_idle(rig.time());
    let said = rig.pass(30_000);
    assert!(!said.contains(&ListenAgain) && !said.contains(&Reconnect));
}

/// A subscription outside the grant: the code goes on as if it were live.
/// <https://github.com/nats-io/nats.rs/issues/1284>
#[test]
fn case_b_d73e8ba_an_agent_that_may_not_listen_says_so_and_is_called_deaf() {
    let mut rig = Rig::applied();
    let _up = rig.with(|core, now| core.handle_link(true, now));
    let said = rig.with(|core, now| core.handle_denied("no right", now));
    assert!(matches!(&said[..], [Note(_)]), "{said:?}");
    let deaf = |said: &[AgentEffect]| {
        said.iter()
            .any(|e| matches!(e, AgentEffect::Heartbeat(beat) if beat.deaf))
    };
    let mut told = false;
    for _ in 0..30 {
        told |= deaf(&rig.pass(5_000));
    }
    assert!(told, "its heartbeats do not say so");
}

/// The first worker's acknowledgement comes late, after the message went to another.
/// <https://github.com/nats-io/nats-server/issues/4786>
#[test]
fn case_b_6e08ccd_work_on_a_declaration_is_shown_well_before_it_would_come_again() {
    let mut rig = Rig::new();
    let wait = mesh_derive::node_consumer(&named("a"), &mesh_derive::Bounds::default());
    let half = u64::from(wait.ack_wait_secs) * 1_000 / 2;
    let (in_hand, _) = rig.hear(1);
    for _ in 0..10 {
        assert!(settled(&rig.pass(half)).contains(&(in_hand, Working)));
    }
}

/// The disk is full: the agent itself dies, and needs somebody to clear it by hand.
/// <https://github.com/balena-os/balena-supervisor/issues/674>
#[test]
fn case_c_401998b_an_agent_whose_disk_is_full_keeps_what_runs_and_goes_on_when_there_is_room() {
    let mut rig = Rig::applied();
    rig.full = true;
    let (in_hand, said) = rig.hear(2);
    assert!(
        carried(&said).is_empty(),
        "what could not be kept is not begun"
    );
    let outcome = &reports(&said)[0].outcome;
    assert!(matches!(outcome, Outcome::Failed { reason } if reason.contains("no space")));
    assert!(!settled(&said).contains(&(in_hand, Done)));
    rig.full = false;
    let mut carries = Vec::new();
    for _ in 0..60 {
        carries.extend(carried(&rig.pass(1_000)));
    }
    assert_eq!(carries, [2]);
}

/// A controller with an empty or older store: its agents end all that runs.
/// <https://github.com/hashicorp/nomad/issues/3770>
#[test]
fn case_c_41a3bba_a_declaration_of_before_ends_nothing() {
    let mut rig = Rig::applied();
    let (_, newer) = rig.hear(5);
    assert_eq!(carried(&newer), [5]);
    for older in 0..5 {
        let (_, said) = rig.hear(older);
        assert!(carried(&said).is_empty(), "{older}: {said:?}");
    }
}
