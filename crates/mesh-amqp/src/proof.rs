//! Proves that a running broker lets each user do what the topology says and nothing next to that. Nothing of it lasts.

mod found;
mod prober;
mod word;

use std::sync::Arc;

use futures_util::{StreamExt, stream};
use mesh_bus::Proven;
use mesh_derive::Plan;
use mesh_derive::proof::Extent;
use mesh_derive::topology::Topology;
use mesh_derive::topology::proof::{Attempt, Expected, Probe, probes};
use mesh_model::Principal;

pub(crate) use found::Found;
pub(crate) use prober::Prober;
pub(crate) use word::Word;

use crate::line::Line;

/// Who logs in, and what is known of him before.
#[derive(Debug)]
pub(crate) struct Subject {
    /// As whom.
    pub(crate) principal: Principal,
    /// His connection.
    pub(crate) line: Line,
    /// What the broker says of him that is not derived.
    pub(crate) said: Vec<String>,
}

/// Proves each of them, so many at a time.
pub(crate) async fn prove(
    plan: &Plan,
    topology: &Arc<Topology>,
    subjects: Vec<Subject>,
    at_a_time: usize,
) -> Vec<Proven> {
    let extent = Extent::of(plan);
    // Owned: of what is borrowed in a stream the compiler cannot tell that it may go to another thread.
    let asked: Vec<(Subject, Vec<Probe>, Arc<Topology>)> = subjects
        .into_iter()
        .map(|subject| {
            let probes = probes(plan, topology, &subject.principal, extent);
            (subject, probes, Arc::clone(topology))
        })
        .collect();
    let proven = asked
        .into_iter()
        .map(|(subject, probes, topology)| async move {
            let mut proven = Proven {
                principal: subject.principal.clone(),
                allowed: 0,
                refused: 0,
                injections: 0,
                untried: 0,
                held: 0,
                differences: subject.said,
            };
            let mut prober = Prober::new(subject.line, &topology.broker.users);
            for probe in probes {
                let found = prober.attempt(&probe.attempt).await;
                count(&mut proven, &probe, &found);
            }
            prober.leave().await;
            proven
        });
    let mut proven: Vec<Proven> = stream::iter(proven)
        .buffer_unordered(at_a_time.max(1))
        .collect()
        .await;
    proven.sort_by(|a, b| a.principal.cmp(&b.principal));
    proven
}

fn count(proven: &mut Proven, probe: &Probe, found: &Found) {
    let counted = match (found, &probe.attempt, probe.expected) {
        (Found::Untried(_), ..) => &mut proven.untried,
        (_, Attempt::Copy { .. }, _) => &mut proven.injections,
        (_, _, Expected::Allowed) => &mut proven.allowed,
        (_, _, Expected::Refused | Expected::Held) => &mut proven.refused,
    };
    *counted += 1;
    if probe.expected == Expected::Held && *found == Found::Held {
        proven.held += 1;
    }
    if !found.is(probe.expected) {
        let Probe { attempt, expected } = probe;
        let principal = &proven.principal;
        proven
            .differences
            .push(format!("{principal} {attempt}: {expected}, and {found}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_attempt_is_counted_once_and_said_where_something_else_came_of_it() {
        let copy = || Attempt::Copy {
            at: mesh_derive::topology::proof::At {
                exchange: "mesh.ctl".to_owned(),
                key: "report.a".to_owned(),
            },
            to: "report.b".to_owned(),
        };
        let consume = || Attempt::Consume("node.b".to_owned());
        let late = || Found::Untried("late".to_owned());
        let cases = [
            (Attempt::Connect, Expected::Allowed, Found::Allowed, false),
            (Attempt::Connect, Expected::Allowed, Found::Refused, true),
            (consume(), Expected::Refused, Found::Refused, false),
            (consume(), Expected::Refused, Found::Allowed, true),
            (consume(), Expected::Refused, Found::Missing, true),
            (consume(), Expected::Allowed, Found::Missing, true),
            (consume(), Expected::Refused, late(), false),
            (copy(), Expected::Refused, Found::Refused, false),
            (copy(), Expected::Refused, Found::Held, true),
            (copy(), Expected::Refused, Found::Allowed, true),
            (copy(), Expected::Held, Found::Held, false),
            (copy(), Expected::Held, Found::Allowed, true),
        ];
        for (attempt, expected, found, differs) in cases {
            let mut proven = Proven {
                principal: Principal::Controller,
                allowed: 0,
                refused: 0,
                injections: 0,
                untried: 0,
                held: 0,
                differences: Vec::new(),
            };
            let probe = Probe { attempt, expected };
            count(&mut proven, &probe, &found);
            let counted = proven.allowed + proven.refused + proven.injections + proven.untried;
            assert_eq!(counted, 1, "{probe:?} {found:?}");
            assert_eq!(
                !proven.differences.is_empty(),
                differs,
                "{probe:?} {found:?}"
            );
        }
    }
}
