//! Declarations that take many minutes to carry out, and what is said of them meanwhile.

use mesh_model::ModuleState::{Pulling, Running, Starting};

use super::*;

impl Rig {
    fn changes(&mut self, to: States) -> Vec<AgentEffect> {
        self.with(|core, now| core.handle_states(to, now))
    }

    fn doing(&mut self, lines: &[(&str, &str)]) -> Vec<AgentEffect> {
        let lines = lines.iter();
        let lines = lines.map(|(module, line)| (named(module), (*line).to_owned()));
        let lines = lines.collect();
        self.with(|core, now| core.handle_doing(&lines, now))
    }

    fn up(&mut self) {
        let _up = self.with(|core, now| core.handle_link(true, now));
    }
}

fn heartbeats(said: &[AgentEffect]) -> Vec<mesh_model::Heartbeat> {
    let beats = said.iter().filter_map(|effect| match effect {
        AgentEffect::Heartbeat(heartbeat) => Some(heartbeat.clone()),
        _ => None,
    });
    beats.collect()
}

#[test]
fn changes_are_reported_while_it_is_carried_out_and_settle_nothing() {
    let mut rig = Rig::new();
    let (in_hand, _) = rig.hear(1);
    assert!(
        reports(&rig.changes(state(Pulling))).is_empty(),
        "it may be done at once"
    );
    let said = rig.pass(1_000);
    let report = &reports(&said)[0];
    assert_eq!(report.outcome, Outcome::Converging);
    assert_eq!(report.modules[&named("x")].state, Pulling);
    assert_eq!(report.id.generation, generation(1));
    let said = rig.sent(report.id.seq);
    assert!(settled(&said).is_empty(), "it is not carried out: {said:?}");
    assert_eq!(rig.core.applied(), None);
    // What changes and changes back within a pause is nothing to say; what stays is.
    rig.now += 1_000;
    let next = reports(&rig.changes(state(Starting))).remove(0);
    assert_eq!(next.outcome, Outcome::Converging);
    assert!(reports(&rig.changes(state(Pulling))).is_empty());
    assert!(reports(&rig.pass(999)).is_empty());
    let _sent = rig.sent(next.id.seq);
    let next = reports(&rig.pass(1)).remove(0);
    assert_eq!(next.modules[&named("x")].state, Pulling);
    let _sent = rig.sent(next.id.seq);
    let last = reports(&rig.ran(1, running())).remove(0);
    assert_eq!(last.outcome, Outcome::Converged);
    assert_eq!(settled(&rig.sent(last.id.seq)), [(in_hand, Done)]);
}

#[test]
fn an_hour_of_work_is_shown_all_along_and_begun_once() {
    let mut rig = Rig::new();
    rig.up();
    let (in_hand, said) = rig.hear(1);
    let mut carries = carried(&said);
    let _pulls = rig.changes(state(Pulling));
    let (mut worked, mut said, mut beaten) = (0, Vec::new(), 0);
    for second in 0..3_600 {
        let effects = if second % 2 == 0 {
            rig.pass(1_000)
        } else {
            rig.now += 1_000;
            rig.doing(&[("x", &format!("pulling {second} of 9999 MB"))])
        };
        carries.extend(carried(&effects));
        worked += settled(&effects)
            .iter()
            .filter(|it| **it == (in_hand, Working))
            .count();
        beaten += heartbeats(&effects).len();
        for report in reports(&effects) {
            let _sent = rig.sent(report.id.seq);
            said.push(report);
        }
    }
    assert_eq!(carries, [1]);
    assert!((119..=120).contains(&worked), "{worked} signs of work");
    assert_eq!(said.len(), 1, "progress is no change of state: {said:?}");
    assert!((600..=722).contains(&beaten), "{beaten} heartbeats");
}

#[test]
fn work_of_which_nothing_changes_is_said_to_be_under_way_once() {
    let mut rig = Rig::new();
    let _kept = rig.hear(1);
    assert!(reports(&rig.pass(4_999)).is_empty());
    let report = reports(&rig.pass(1)).remove(0);
    assert_eq!(report.outcome, Outcome::Converging);
    let _sent = rig.sent(report.id.seq);
    assert!((0..600).all(|_| reports(&rig.pass(1_000)).is_empty()));
}

#[test]
fn of_twenty_declarations_in_a_row_the_last_is_carried_out_reported_and_acknowledged_with_all() {
    let mut rig = Rig::new();
    let mut acknowledged = Vec::new();
    let mut hands = Vec::new();
    for counter in 1..=20 {
        let (in_hand, said) = rig.hear(counter);
        hands.push(in_hand);
        assert_eq!(
            carried(&said),
            [counter],
            "at once, whatever the one before is at"
        );
        acknowledged.extend(settled(&said));
        rig.now += 100;
        let _pulls = rig.changes(state(if counter % 2 == 0 { Pulling } else { Starting }));
    }
    // The runtime answers for each, in any order.
    for counter in (1..20).rev() {
        let said = rig.ran(counter, running());
        assert!(said.is_empty(), "{counter}: {said:?}");
    }
    assert_eq!(rig.core.applied(), None);
    let report = reports(&rig.ran(20, running())).remove(0);
    assert_eq!(report.outcome, Outcome::Converged);
    assert_eq!(report.id.generation, generation(20));
    assert_eq!(
        rig.disk.unsent,
        std::slice::from_ref(&report),
        "of earlier ones nothing is kept"
    );
    acknowledged.extend(settled(&rig.sent(report.id.seq)));
    let all: Vec<_> = hands.into_iter().map(|it| (it, Done)).collect();
    assert_eq!(acknowledged, all);
    assert_eq!(rig.core.applied(), Some(generation(20)));
}

#[test]
fn a_runtime_that_is_away_and_changes_is_said_to_fail_and_not_to_go_on() {
    let mut rig = Rig::new();
    let _kept = rig.hear(1);
    let first = reports(&rig.fails(1)).remove(0);
    let _sent = rig.sent(first.id.seq);
    let _changed = rig.changes(state(Running));
    let _again = rig.pass(2_000);
    let said = reports(&rig.fails(1)).remove(0);
    assert!(matches!(said.outcome, Outcome::Failed { .. }));
    assert_eq!(said.modules.len(), 1);
    let _sent = rig.sent(said.id.seq);
    let _again = rig.pass(2_000);
    assert!(reports(&rig.fails(1)).is_empty());
}

#[test]
fn after_a_restart_what_is_found_running_is_said_before_the_first_work_is_done() {
    let disk = Rig::applied().disk;
    let mut rig = Rig::on(disk, BEGINNING + 60_000);
    assert!(reports(&rig.changes(running())).is_empty());
    let report = reports(&rig.pass(1_000)).remove(0);
    assert_eq!(report.outcome, Outcome::Converging);
    assert_eq!(report.modules, running());
}

#[test]
fn a_module_that_was_removed_while_the_node_was_away_for_a_week_goes_on_its_return() {
    let mut rig = Rig::applied();
    let _down = rig.with(|core, now| core.handle_link(false, now));
    for _ in 0..7 * 24 {
        rig.now += 3_600_000;
        let said = rig.with(Agent::tick);
        assert!(said.is_empty(), "alone, it keeps what runs: {said:?}");
    }
    // The power went, too: what it remembers is a week old.
    let mut rig = Rig::on(rig.disk.clone(), rig.now + 1_000);
    assert_eq!(carried(&rig.said), [1]);
    rig.up();
    let (in_hand, said) = rig.hear(2);
    let [CarryOut(declaration)] = &said[said.len() - 1..] else {
        panic!("{said:?}")
    };
    assert!(
        declaration.workloads.is_empty(),
        "what it does not name is to go"
    );
    let report = reports(&rig.ran(2, States::new())).remove(0);
    assert_eq!(
        (report.outcome, report.modules),
        (Outcome::Converged, States::new())
    );
    assert_eq!(settled(&rig.sent(report.id.seq)), [(in_hand, Done)]);
}

#[test]
fn what_is_done_is_in_heartbeats_as_few_short_lines_and_soon_said_when_it_begins_or_ends() {
    let mut rig = Rig::applied();
    rig.up();
    let _beat = rig.pass(5_000);
    // Two heartbeats keep a pause between them, however soon something is said.
    assert!(heartbeats(&rig.doing(&[("x", "pulling")])).is_empty());
    let beat = heartbeats(&rig.pass(1_000)).remove(0);
    assert_eq!(beat.doing[&named("x")], "pulling");
    assert!(heartbeats(&rig.doing(&[("x", "pulling 2")])).is_empty());
    assert!(heartbeats(&rig.pass(4_999)).is_empty());
    assert_eq!(heartbeats(&rig.pass(1))[0].doing[&named("x")], "pulling 2");
    rig.now += 2_000;
    assert!(
        heartbeats(&rig.doing(&[]))[0].doing.is_empty(),
        "it has ended"
    );
    let long = "\u{1b}[2J€".repeat(500);
    let many: Vec<String> = (0..100).map(|number| format!("m{number:02}")).collect();
    let lines: Vec<(&str, &str)> = many.iter().map(|it| (it.as_str(), long.as_str())).collect();
    rig.now += 2_000;
    let beat = heartbeats(&rig.doing(&lines)).remove(0);
    assert_eq!(beat.doing.len(), 16);
    assert!(
        beat.doing
            .values()
            .all(|line| line.len() <= 160 && !line.contains('\u{1b}'))
    );
    assert!(beat.doing.values().all(|line| line.len() > 150));
}

#[test]
fn an_image_and_a_last_exit_are_lines_in_a_report_too() {
    let mut rig = Rig::new();
    let _kept = rig.hear(1);
    let module = running().into_values().next().unwrap();
    let states = (0..300).map(|number| {
        let mut module = module.clone();
        module.image = Some("sha256:\n1".to_owned());
        let how = format!("status 1\n{}", "x".repeat(10_000));
        let at = Timestamp::from_millis(1);
        module.last_exit = Some(mesh_model::LastExit { at, how });
        (named(&format!("m{number}")), module)
    });
    let report = reports(&rig.ran(1, states.collect())).remove(0);
    let exits = report
        .modules
        .values()
        .filter_map(|it| it.last_exit.as_ref());
    let lengths: Vec<usize> = exits.map(|it| it.how.len()).collect();
    assert_eq!(lengths.len(), 64 * 1024 / 500);
    assert!(lengths.iter().all(|it| *it == 500));
    let line = |it: &ModuleReport| it.image.as_deref() == Some("sha256: 1");
    assert!(report.modules.values().all(line));
}
