//! The agent: what it carries out, what it says, and when it acknowledges.

use std::collections::BTreeMap;
use std::time::Duration;

use mesh_control::{Agent, AgentEffect, AgentSettings, InHand, NodeSettlement, Remembered};
use mesh_model::{
    Declaration, Generation, ModuleName, ModuleReport, ModuleState, Outcome, Report, Seq, Timestamp,
};

use crate::rig::named;

#[path = "agent_hand.rs"]
mod hand;
#[path = "agent_long.rs"]
mod long;

use AgentEffect::{CarryOut, Keep, ListenAgain, Note, Reconnect, Settle};
use NodeSettlement::{Done, Working};

type States = BTreeMap<ModuleName, ModuleReport>;

const BEGINNING: u64 = 1_000_000;

struct Rig {
    core: Agent,
    now: u64,
    disk: Remembered,
    full: bool,
    said: Vec<AgentEffect>,
    hands: u64,
}

impl Rig {
    fn new() -> Self {
        Self::on(Remembered::default(), BEGINNING)
    }

    fn on(disk: Remembered, now: u64) -> Self {
        let mut settings = AgentSettings::new(named("a"), now);
        settings.idle = Some(Duration::from_secs(30));
        let at = Timestamp::from_millis(now);
        let (core, effects) = Agent::start(settings, disk.clone(), at);
        let mut rig = Self {
            core,
            now,
            disk,
            full: false,
            said: Vec::new(),
            hands: 0,
        };
        rig.carry_out(effects);
        rig
    }

    fn time(&self) -> Timestamp {
        Timestamp::from_millis(self.now)
    }

    fn carry_out(&mut self, effects: Vec<AgentEffect>) {
        for effect in effects {
            self.said.push(effect.clone());
            if let Keep(remembered) = effect {
                let result = if self.full {
                    Err("no space left".to_owned())
                } else {
                    self.disk = remembered;
                    Ok(())
                };
                let next = self.core.handle_kept(result, self.time());
                self.carry_out(next);
            }
        }
    }

    /// What is said because of something.
    fn with(
        &mut self,
        handle: impl FnOnce(&mut Agent, Timestamp) -> Vec<AgentEffect>,
    ) -> Vec<AgentEffect> {
        self.said.clear();
        let effects = handle(&mut self.core, Timestamp::from_millis(self.now));
        self.carry_out(effects);
        self.said.clone()
    }

    fn hear(&mut self, counter: u64) -> (InHand, Vec<AgentEffect>) {
        self.hands += 1;
        let in_hand = InHand(self.hands);
        let said =
            self.with(|core, now| core.handle_declaration(in_hand, declaration(counter), now));
        (in_hand, said)
    }

    fn ran(&mut self, counter: u64, states: States) -> Vec<AgentEffect> {
        self.with(|core, now| core.handle_carried_out(generation(counter), Ok(states), now))
    }

    fn fails(&mut self, counter: u64) -> Vec<AgentEffect> {
        let result = || Err("no runtime".to_owned());
        self.with(|core, now| core.handle_carried_out(generation(counter), result(), now))
    }

    fn sent(&mut self, seq: Seq) -> Vec<AgentEffect> {
        self.with(|core, now| core.handle_reported(seq, Ok(()), now))
    }

    fn unsent(&mut self, seq: Seq) -> Vec<AgentEffect> {
        self.with(|core, now| core.handle_reported(seq, Err("no answer".to_owned()), now))
    }

    fn pass(&mut self, millis: u64) -> Vec<AgentEffect> {
        self.now += millis;
        self.with(Agent::tick)
    }

    /// A node that runs generation 1 and has said so.
    fn applied() -> Self {
        let mut rig = Self::new();
        let _kept = rig.hear(1);
        let seq = reports(&rig.ran(1, running()))[0].id.seq;
        let _sent = rig.sent(seq);
        rig
    }
}

fn generation(counter: u64) -> Generation {
    Generation {
        incarnation: 1,
        counter,
    }
}

fn declaration(counter: u64) -> Declaration {
    Declaration {
        home: mesh_model::Home::Here,
        node: named("a"),
        generation: generation(counter),
        workloads: Vec::new(),
    }
}

fn state(state: ModuleState) -> States {
    let report = ModuleReport {
        release: "1".to_owned(),
        state,
        pid: None,
        restarts: 0,
        reason: None,
        image: None,
        last_exit: None,
        repairs: 0,
    };
    BTreeMap::from([(named("x"), report)])
}

fn running() -> States {
    state(ModuleState::Running)
}

fn reports(said: &[AgentEffect]) -> Vec<Report> {
    let reports = said.iter().filter_map(|effect| match effect {
        AgentEffect::Report(report) => Some(report.clone()),
        _ => None,
    });
    reports.collect()
}

fn carried(said: &[AgentEffect]) -> Vec<u64> {
    let carried = said.iter().filter_map(|effect| match effect {
        CarryOut(declaration) => Some(declaration.generation.counter),
        _ => None,
    });
    carried.collect()
}

fn settled(said: &[AgentEffect]) -> Vec<(InHand, NodeSettlement)> {
    let settled = said.iter().filter_map(|effect| match effect {
        Settle(in_hand, how) => Some((*in_hand, *how)),
        _ => None,
    });
    settled.collect()
}

#[test]
fn a_newer_declaration_is_kept_carried_out_reported_and_only_then_acknowledged() {
    let mut rig = Rig::new();
    let (in_hand, said) = rig.hear(1);
    assert!(matches!(said[..], [Keep(_), CarryOut(_)]), "{said:?}");
    assert_eq!(rig.disk.declaration, Some(declaration(1)));
    assert_eq!(rig.core.applied(), None);
    let said = rig.ran(1, running());
    assert!(
        matches!(said[..], [Keep(_), AgentEffect::Report(_)]),
        "{said:?}"
    );
    let report = &reports(&said)[0];
    assert_eq!(
        (report.id.generation, &report.outcome),
        (generation(1), &Outcome::Converged)
    );
    assert_eq!(rig.disk.unsent, std::slice::from_ref(report));
    assert!(settled(&rig.unsent(report.id.seq)).is_empty());
    let again = rig.pass(2_000);
    assert_eq!(reports(&again), std::slice::from_ref(report));
    let said = rig.sent(report.id.seq);
    assert_eq!(settled(&said), [(in_hand, Done)]);
    assert_eq!(
        (rig.core.applied(), rig.disk.unsent.len()),
        (Some(generation(1)), 0)
    );
}

#[test]
fn an_equal_declaration_is_not_carried_out_again_but_reported_again() {
    let mut rig = Rig::applied();
    let last = rig.disk.seq;
    let (in_hand, said) = rig.hear(1);
    assert!(carried(&said).is_empty() && settled(&said).is_empty());
    assert_eq!(reports(&said)[0].id.seq, last);
    assert_eq!(settled(&rig.sent(last)), [(in_hand, Done)]);
}

#[test]
fn an_equal_declaration_asks_again_for_a_report_of_failure_too() {
    let mut rig = Rig::new();
    let _kept = rig.hear(1);
    let first = reports(&rig.fails(1));
    let said = rig.sent(first[0].id.seq);
    assert!(settled(&said).is_empty(), "it does not run yet");
    let (_, said) = rig.hear(1);
    assert_eq!(reports(&said), first);
}

#[test]
fn an_equal_declaration_that_comes_during_the_work_is_acknowledged_with_the_first() {
    let mut rig = Rig::new();
    let (first, _) = rig.hear(1);
    let (second, said) = rig.hear(1);
    assert!(said.is_empty(), "{said:?}");
    let seq = reports(&rig.ran(1, running()))[0].id.seq;
    assert_eq!(settled(&rig.sent(seq)), [(first, Done), (second, Done)]);
}

#[test]
fn a_report_that_is_asked_for_again_while_it_is_on_its_way_goes_once_more() {
    let mut rig = Rig::new();
    let (first, _) = rig.hear(1);
    let report = reports(&rig.ran(1, running())).remove(0);
    let (second, said) = rig.hear(1);
    assert!(reports(&said).is_empty(), "one is on its way at a time");
    let said = rig.sent(report.id.seq);
    assert_eq!(reports(&said), std::slice::from_ref(&report));
    assert_eq!(rig.disk.unsent, std::slice::from_ref(&report));
    let mut acknowledged = settled(&said);
    let said = rig.sent(report.id.seq);
    acknowledged.extend(settled(&said));
    assert_eq!(acknowledged, [(first, Done), (second, Done)]);
    assert!(reports(&said).is_empty() && rig.disk.unsent.is_empty());

    // One that did not get there goes again anyhow, and then once.
    let mut rig = Rig::new();
    let _first = rig.hear(1);
    let seq = reports(&rig.ran(1, running()))[0].id.seq;
    let _second = rig.hear(1);
    let _away = rig.unsent(seq);
    assert_eq!(reports(&rig.pass(2_000)).len(), 1);
    assert!(reports(&rig.sent(seq)).is_empty() && rig.disk.unsent.is_empty());
}

#[test]
fn an_older_declaration_is_acknowledged_and_dropped() {
    let mut rig = Rig::new();
    let _kept = rig.hear(2);
    let (in_hand, said) = rig.hear(1);
    assert_eq!(said, [Settle(in_hand, Done)]);
    assert_eq!(rig.core.declaration(), Some(&declaration(2)));
}

#[test]
fn a_declaration_for_another_node_is_not_acted_upon() {
    let mut rig = Rig::new();
    let mut other = declaration(1);
    other.node = named("b");
    let said = rig.with(|core, now| core.handle_declaration(InHand(1), other, now));
    assert!(matches!(said[..], [Note(_), Settle(_, Done)]));
    assert_eq!(rig.core.declaration(), None);
}

#[test]
fn a_newer_declaration_supersedes_one_that_is_being_carried_out() {
    let mut rig = Rig::new();
    let (first, _) = rig.hear(1);
    let (second, said) = rig.hear(2);
    assert_eq!(settled(&said), [(first, Done)]);
    assert_eq!(carried(&said), [2]);
    assert!(
        rig.ran(1, running()).is_empty(),
        "what became of the first does not matter"
    );
    let seq = reports(&rig.ran(2, running()))[0].id.seq;
    assert_eq!(settled(&rig.sent(seq)), [(second, Done)]);
}

#[test]
fn long_work_is_shown_in_time() {
    let mut rig = Rig::new();
    let (in_hand, _) = rig.hear(1);
    assert!(settled(&rig.pass(29_999)).is_empty());
    assert_eq!(settled(&rig.pass(1)), [(in_hand, Working)]);
    assert!(settled(&rig.pass(29_999)).is_empty());
    assert_eq!(settled(&rig.pass(1)), [(in_hand, Working)]);
    let idle = Rig::applied().pass(60_000);
    assert!(settled(&idle).is_empty(), "nothing is in hand");
}

#[test]
fn a_declaration_that_cannot_be_kept_is_reported_and_not_carried_out() {
    let mut rig = Rig::new();
    rig.full = true;
    let (in_hand, said) = rig.hear(1);
    assert!(carried(&said).is_empty());
    let report = &reports(&said)[0];
    assert!(
        matches!(&report.outcome, Outcome::Failed { reason } if reason.contains("no space left"))
    );
    let said = rig.sent(report.id.seq);
    assert!(
        said.is_empty(),
        "neither asked again nor acknowledged: {said:?}"
    );
    for _ in 0..5 {
        let said = rig.pass(2_000);
        assert!(
            carried(&said).is_empty() && reports(&said).is_empty(),
            "said once: {said:?}"
        );
    }
    rig.full = false;
    assert_eq!(carried(&rig.pass(2_000)), [1]);
    let seq = reports(&rig.ran(1, running()))[0].id.seq;
    assert_eq!(settled(&rig.sent(seq)), [(in_hand, Done)]);
}

#[test]
fn a_runtime_that_is_away_is_reported_once_a_generation_and_tried_again() {
    let mut rig = Rig::new();
    let _kept = rig.hear(1);
    assert_eq!(reports(&rig.fails(1)).len(), 1);
    assert_eq!(carried(&rig.pass(2_000)), [1]);
    assert!(reports(&rig.fails(1)).is_empty(), "nothing new to say");
    let _kept = rig.hear(2);
    let seq = rig.disk.seq;
    let _failed = rig.fails(2);
    assert!(rig.disk.seq > seq);
    assert_eq!(rig.disk.unsent.last().unwrap().id.generation, generation(2));
}

#[test]
fn a_restart_carries_out_what_is_remembered_and_sends_what_was_not_sent() {
    let mut rig = Rig::new();
    let _kept = rig.hear(1);
    let unsent = reports(&rig.ran(1, running()));
    let mut rig = Rig::on(rig.disk.clone(), rig.now + 5_000);
    assert_eq!(carried(&rig.said), [1]);
    let said = rig.with(|core, now| core.handle_link(true, now));
    assert_eq!(reports(&said), unsent);
    let _sent = rig.sent(unsent[0].id.seq);
    let said = rig.ran(1, running());
    assert!(reports(&said)[0].id.seq > unsent[0].id.seq);
    // What comes again after the restart is the same declaration.
    let (_, said) = rig.hear(1);
    assert!(carried(&said).is_empty());
}

#[test]
fn sequences_grow_although_the_clock_went_back() {
    let rig = Rig::applied();
    let mut again = Rig::on(rig.disk.clone(), BEGINNING - 500_000);
    let seq = reports(&again.ran(1, running()))[0].id.seq;
    assert!(seq > rig.disk.seq);
}

#[test]
fn reports_that_are_not_sent_are_few_and_the_newest() {
    let mut rig = Rig::applied();
    for round in 0..40 {
        let kind = if round % 2 == 0 {
            ModuleState::Backoff
        } else {
            ModuleState::Running
        };
        rig.now += 1_000;
        let _changed = rig.with(|core, now| core.handle_states(state(kind), now));
    }
    assert_eq!(rig.disk.unsent.len(), 16);
    assert_eq!(rig.disk.unsent.last().unwrap().outcome, Outcome::Converged);
    let order: Vec<Seq> = rig.disk.unsent.iter().map(|report| report.id.seq).collect();
    assert!(order.is_sorted());
    // A newer generation makes them pointless.
    let _kept = rig.hear(2);
    let _ran = rig.ran(2, running());
    assert_eq!(rig.disk.unsent.len(), 1);
}

#[test]
fn changes_are_reported_and_not_more_often_than_the_pause() {
    let mut rig = Rig::applied();
    rig.now += 1_000;
    let said = rig.with(|core, now| core.handle_states(state(ModuleState::Backoff), now));
    let first = reports(&said)[0].clone();
    assert!(matches!(first.outcome, Outcome::Failed { .. }));
    let _sent = rig.sent(first.id.seq);
    rig.now += 1;
    for kind in [ModuleState::Starting, ModuleState::Running] {
        assert!(
            rig.with(|core, now| core.handle_states(state(kind), now))
                .is_empty()
        );
    }
    assert_eq!(reports(&rig.pass(999))[0].outcome, Outcome::Converged);
    let same = rig.with(|core, now| core.handle_states(running(), now));
    assert!(same.is_empty(), "nothing changed");
}

#[test]
fn what_modules_do_is_what_is_reported() {
    use ModuleState::{Backoff, Ended, Failed, Running, Starting};
    for (kind, word) in [
        (Running, "converged"),
        (Ended, "converged"),
        (Starting, "converging"),
        (Backoff, "failed"),
        (Failed, "failed"),
    ] {
        let mut rig = Rig::new();
        let _kept = rig.hear(1);
        assert_eq!(
            reports(&rig.ran(1, state(kind)))[0].outcome.word(),
            word,
            "{kind:?}"
        );
    }
}

#[test]
fn what_failed_before_or_runs_in_place_of_what_was_declared_is_a_failure() {
    use ModuleState::{Ended, Pulling, Running, Starting};
    for (kind, word) in [
        (Running, "failed"),
        (Starting, "failed"),
        (Pulling, "failed"),
        (Ended, "converged"),
    ] {
        let mut rig = Rig::new();
        let _kept = rig.hear(1);
        let mut states = state(kind);
        for report in states.values_mut() {
            report.reason = Some("release 2: exited with status 3; release 1 runs again".into());
        }
        let said = reports(&rig.ran(1, states)).remove(0);
        assert_eq!(said.outcome.word(), word, "{kind:?}");
        if let Outcome::Failed { reason } = &said.outcome {
            assert!(reason.contains("release 1 runs again"), "{reason}");
        }
    }
}

#[test]
fn two_missed_signs_of_life_listen_again_and_a_third_connects_again() {
    let mut rig = Rig::applied();
    let _up = rig.with(|core, now| core.handle_link(true, now));
    let steps = |said: &[AgentEffect]| {
        let step = |e: &&AgentEffect| matches!(e, ListenAgain | Reconnect);
        said.iter().filter(step).cloned().collect::<Vec<_>>()
    };
    let deaf = |said: &[AgentEffect]| {
        said.iter()
            .any(|e| matches!(e, AgentEffect::Heartbeat(beat) if beat.deaf))
    };
    let said = rig.pass(59_999);
    assert!(steps(&said).is_empty() && !deaf(&said));
    assert_eq!(steps(&rig.pass(1)), [ListenAgain]);
    let said = rig.pass(29_999);
    assert!(steps(&said).is_empty() && deaf(&said));
    assert_eq!(steps(&rig.pass(1)), [Reconnect]);
    assert_eq!(steps(&rig.pass(30_000)), [Reconnect]);
    rig.core.handle_idle(rig.time());
    let said = rig.pass(5_000);
    assert!(steps(&said).is_empty() && !deaf(&said));
}

#[test]
fn an_agent_whose_link_is_down_neither_beats_nor_listens() {
    let mut rig = Rig::applied();
    let _down = rig.with(|core, now| core.handle_link(false, now));
    assert!(rig.pass(600_000).is_empty());
}

#[test]
fn a_node_that_may_not_listen_says_so_once_and_tries_again() {
    let mut rig = Rig::applied();
    let _up = rig.with(|core, now| core.handle_link(true, now));
    assert_eq!(
        rig.with(|core, now| core.handle_denied("no right", now))
            .len(),
        1
    );
    assert!(
        rig.with(|core, now| core.handle_denied("no right", now))
            .is_empty()
    );
    assert!(!rig.pass(1_999).contains(&ListenAgain));
    assert!(rig.pass(1).contains(&ListenAgain));
}

#[test]
fn a_clock_set_back_silences_nothing() {
    let mut rig = Rig::applied();
    let _up = rig.with(|core, now| core.handle_link(true, now));
    let beats = |said: &[AgentEffect]| said.iter().any(|e| matches!(e, AgentEffect::Heartbeat(_)));
    let _beat = rig.pass(5_000);
    let (in_hand, _) = rig.hear(2);
    let _failed = rig.fails(2);
    rig.now -= 900_000;
    let said = rig.pass(0);
    assert!(beats(&said));
    assert_eq!(carried(&said), [2]);
    assert_eq!(settled(&said), [(in_hand, Working)]);
    assert!(rig.pass(60_000).contains(&ListenAgain));
}

#[test]
fn what_is_reported_is_lines_and_fits_into_a_message() {
    let mut rig = Rig::new();
    let _kept = rig.hear(1);
    let module = state(ModuleState::Failed).into_values().next().unwrap();
    let states = (0..1_000).map(|number| {
        let mut module = module.clone();
        module.reason = Some(format!("\u{1b}[2J\n{}", "x".repeat(10_000)));
        module.release = "1\n2".to_owned();
        (named(&format!("m{number}")), module)
    });
    let report = reports(&rig.ran(1, states.collect())).remove(0);
    let reasons = report.modules.values().filter_map(|m| m.reason.as_ref());
    let lengths: Vec<usize> = reasons.map(String::len).collect();
    assert!(lengths.iter().all(|length| *length == 500), "{lengths:?}");
    assert_eq!(lengths.len(), 64 * 1024 / 500);
    assert!(
        report
            .modules
            .values()
            .all(|module| module.release == "1 2")
    );
    let Outcome::Failed { reason } = &report.outcome else {
        panic!("{:?}", report.outcome)
    };
    assert!(reason.len() == 500 && !reason.contains('\n'));
}

#[test]
fn a_long_failure_is_said_once_however_often_it_is_tried() {
    let mut rig = Rig::new();
    let _kept = rig.hear(1);
    let mut said = 0;
    for _ in 0..3 {
        let result = Err("no runtime\n".repeat(1_000));
        let effects = rig.with(|core, now| core.handle_carried_out(generation(1), result, now));
        for report in reports(&effects) {
            said += 1;
            let _sent = rig.sent(report.id.seq);
        }
        let _again = rig.pass(2_000);
    }
    assert_eq!(said, 1);
}
