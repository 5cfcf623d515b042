//! What has to happen on a host so that it runs what is desired, and nothing else.

use std::collections::{BTreeMap, BTreeSet};

use mesh_model::{ModuleName, Workload};

/// One instance the host has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observed {
    /// The module.
    pub module: ModuleName,
    /// What it was started as; nothing when that can no longer be told, so that it is no desired workload.
    pub workload: Option<Workload>,
    /// How it stands.
    pub standing: Standing,
    /// What was tried in its place, and was bad: it is not tried again until it is declared otherwise.
    pub rejected: Option<Workload>,
}

/// How an instance stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It runs, has ended as it should, or is waiting to be started again.
    Held,
    /// It ended while no agent was there to start it again.
    Lost,
}

/// One thing to do.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step<'a> {
    /// End it and forget it.
    Stop(&'a ModuleName),
    /// Start it, when what it comes after was started. Where it is there and lost, that one again: what was bad before
    /// is bad still.
    Start(&'a ModuleName),
    /// It is there as something else. What is there goes when the new one can be started, and comes back if that one is
    /// bad.
    Replace(&'a ModuleName),
}

impl<'a> Step<'a> {
    /// The module it is about.
    pub const fn module(self) -> &'a ModuleName {
        match self {
            Self::Stop(module) | Self::Start(module) | Self::Replace(module) => module,
        }
    }
}

/// The steps from what is observed to what is desired: first what ends, then what starts, in the order of `after`.
///
/// What runs as it is desired has no step. Of two desired workloads of one module the later counts. What is there and
/// nobody can tell what it is, is ended before its module is started: there is nothing of it that could come back.
pub fn plan<'a>(observed: &'a [Observed], desired: &'a [Workload]) -> Vec<Step<'a>> {
    let desired: BTreeMap<&ModuleName, &Workload> = desired
        .iter()
        .map(|wanted| (&wanted.module, wanted))
        .collect();
    let there: BTreeMap<&ModuleName, &Observed> = observed
        .iter()
        .map(|instance| (&instance.module, instance))
        .collect();
    let stops = there.iter().filter_map(|(module, instance)| {
        let known = instance.workload.is_some() && desired.contains_key(module);
        (!known).then_some(Step::Stop(module))
    });
    let steps = in_order(&desired)
        .into_iter()
        .filter_map(|module| step(there.get(module).copied(), desired.get(module)?));
    stops.chain(steps).collect()
}

/// What is to happen to a module that is desired, if anything is.
pub fn step<'a>(there: Option<&Observed>, wanted: &'a Workload) -> Option<Step<'a>> {
    let start = Step::Start(&wanted.module);
    let Some(instance) = there else {
        return Some(start);
    };
    let Some(running) = &instance.workload else {
        return Some(start);
    };
    let tried = instance.rejected.as_ref();
    let same = running.runs_as(wanted) || tried.is_some_and(|tried| declared_as(tried, wanted));
    match (same, instance.standing) {
        (true, Standing::Held) => None,
        (true, Standing::Lost) => Some(start),
        (false, _) => Some(Step::Replace(&wanted.module)),
    }
}

/// Whether one is declared as the other: not only that a process may go on, but that it would be judged alike.
pub fn declared_as(one: &Workload, other: &Workload) -> bool {
    one.runs_as(other) && one.health == other.health
}

/// What comes back when `bad`, which took the place of `good`, is bad; nothing when that would be the same again.
///
/// It comes back as who the instance is now: the credential lies in a file, and that is today's. So do its secrets; one
/// that `bad` does not name is as it was.
pub fn fallback(good: &Workload, bad: &Workload) -> Option<Workload> {
    let secrets = good.secrets.iter().map(|(name, then)| {
        let today = bad.secrets.get(name).unwrap_or(then);
        (name.clone(), today.clone())
    });
    let back = Workload {
        secrets: secrets.collect(),
        pull_secret: bad.pull_secret.clone(),
        key: bad.key.clone(),
        credential: bad.credential.clone(),
        accepts: bad.accepts.clone(),
        ..good.clone()
    };
    (!back.runs_as(bad)).then_some(back)
}

/// For each module, those of the others it starts after. Nothing waits in a circle.
pub fn predecessors(desired: &[Workload]) -> BTreeMap<ModuleName, BTreeSet<ModuleName>> {
    let desired: BTreeMap<&ModuleName, &Workload> = desired
        .iter()
        .map(|wanted| (&wanted.module, wanted))
        .collect();
    let mut earlier = BTreeSet::new();
    let mut all = BTreeMap::new();
    for module in in_order(&desired) {
        let after = desired.get(module).map(|wanted| &wanted.after);
        let waits = after.into_iter().flatten();
        let waits = waits.filter(|other| earlier.contains(other)).cloned();
        all.insert(module.clone(), waits.collect());
        earlier.insert(module);
    }
    all
}

/// The modules in the order of `after`, else by name. What `after` names and the host is not to run is no reason to
/// wait; a cycle, which no manifest set can hold, is cut at its first name.
fn in_order<'a>(desired: &BTreeMap<&'a ModuleName, &'a Workload>) -> Vec<&'a ModuleName> {
    let mut order = Vec::with_capacity(desired.len());
    let mut left: BTreeMap<&ModuleName, &Workload> = desired.clone();
    while let Some((&first, _)) = left.first_key_value() {
        let next = left
            .iter()
            .find(|(_, wanted)| {
                wanted
                    .after
                    .iter()
                    .all(|earlier| *earlier == wanted.module || !left.contains_key(earlier))
            })
            .map_or(first, |(&module, _)| module);
        left.remove(next);
        order.push(next);
    }
    order
}

#[cfg(test)]
mod tests {
    use mesh_model::{PublicKey, Restart, Run, Sealed};
    use proptest::prelude::*;

    use super::*;

    fn workload(module: &str, release: u8, after: &[&str]) -> Workload {
        Workload {
            module: module.parse().unwrap(),
            release: release.to_string(),
            run: Run::command([module.to_owned()]).unwrap(),
            after: after.iter().map(|name| name.parse().unwrap()).collect(),
            env: BTreeMap::new(),
            restart: Restart::Always,
            key: PublicKey::from_raw([0; 32]),
            credential: Sealed(vec![]),
            health: None,
            secrets: [].into(),
            pull_secret: None,
            accepts: [].into(),
        }
    }

    fn held(workload: &Workload) -> Observed {
        Observed {
            module: workload.module.clone(),
            workload: Some(workload.clone()),
            standing: Standing::Held,
            rejected: None,
        }
    }

    /// What the host has once every step was taken.
    fn carried_out(
        observed: &[Observed],
        desired: &[Workload],
        steps: &[Step<'_>],
    ) -> Vec<Observed> {
        let mut host: BTreeMap<_, _> = observed
            .iter()
            .map(|o| (o.module.clone(), o.clone()))
            .collect();
        for step in steps {
            match step {
                Step::Stop(module) => {
                    assert!(host.remove(module).is_some(), "stopped what is not there");
                }
                Step::Start(module) => {
                    let wanted = desired.iter().rev().find(|w| w.module == **module).unwrap();
                    let started = host.remove(*module).map_or_else(
                        || held(wanted),
                        |there| Observed {
                            standing: Standing::Held,
                            ..there
                        },
                    );
                    let before = host.insert((*module).clone(), started);
                    assert_eq!(before, None, "started a second copy of {module}");
                }
                Step::Replace(module) => {
                    let wanted = desired.iter().rev().find(|w| w.module == **module).unwrap();
                    let before = host.insert((*module).clone(), held(wanted));
                    assert!(before.is_some(), "replaced {module}, which is not there");
                }
            }
        }
        host.into_values().collect()
    }

    const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

    fn workloads() -> impl Strategy<Value = Vec<Workload>> {
        // Each module may wait for modules of lesser index only, so there is no cycle; names are shuffled, so that the
        // order of names is not the order of `after`.
        (
            Just(NAMES).prop_shuffle(),
            proptest::collection::vec((any::<bool>(), 0_u8..2, any::<u8>()), NAMES.len()),
        )
            .prop_map(|(names, facts)| {
                let mut all = vec![];
                for (index, (wanted, release, bits)) in facts.into_iter().enumerate() {
                    let after: Vec<_> = (0..index)
                        .filter(|bit| bits >> bit & 1 == 1)
                        .map(|i| names[i])
                        .collect();
                    if wanted {
                        all.push(workload(names[index], release, &after));
                    }
                }
                all
            })
    }

    fn observed() -> impl Strategy<Value = Vec<Observed>> {
        (
            workloads(),
            proptest::collection::vec((0_u8..4, 0_u8..4), NAMES.len()),
        )
            .prop_map(|(all, fates)| {
                all.iter()
                    .zip(fates)
                    .map(|(running, (fate, rejected))| {
                        let standing = if fate == 1 {
                            Standing::Lost
                        } else {
                            Standing::Held
                        };
                        let bad = workload(running.module.as_str(), rejected, &[]);
                        Observed {
                            workload: (fate != 0).then(|| running.clone()),
                            standing,
                            rejected: (fate != 0 && rejected < 2).then_some(bad),
                            ..held(running)
                        }
                    })
                    .collect()
            })
    }

    proptest! {
        #[test]
        fn a_plan_carried_out_leaves_nothing_to_plan(observed in observed(), desired in workloads()) {
            let steps = plan(&observed, &desired);
            let host = carried_out(&observed, &desired, &steps);
            prop_assert_eq!(plan(&host, &desired), vec![]);
            let names: Vec<_> = host.iter().map(|o| &o.module).collect();
            let mut wanted: Vec<_> = desired.iter().map(|w| &w.module).collect();
            wanted.sort();
            prop_assert_eq!(names, wanted);
        }

        #[test]
        fn what_runs_as_desired_is_not_touched(observed in observed(), desired in workloads()) {
            let steps = plan(&observed, &desired);
            for instance in &observed {
                let same = instance.standing == Standing::Held && desired.iter().any(|wanted| {
                    instance.workload.as_ref().is_some_and(|running| running.runs_as(wanted))
                        || instance.rejected.as_ref().is_some_and(|bad| declared_as(bad, wanted))
                });
                let touched = steps.iter().any(|step| *step.module() == instance.module);
                prop_assert!(!(same && touched), "{:?}", steps);
            }
        }

        #[test]
        fn nothing_starts_before_what_it_comes_after(observed in observed(), desired in workloads()) {
            let steps = plan(&observed, &desired);
            let at = |module: &ModuleName| steps.iter().position(|step| {
                *step == Step::Start(module) || *step == Step::Replace(module)
            });
            let waits = predecessors(&desired);
            for wanted in &desired {
                // There is no circle here, so that nothing is left out.
                let there = |name: &&ModuleName| desired.iter().any(|other| other.module == **name);
                let all: BTreeSet<_> = wanted.after.iter().filter(there).cloned().collect();
                prop_assert_eq!(&waits[&wanted.module], &all);
                for earlier in &wanted.after {
                    if let (Some(mine), Some(before)) = (at(&wanted.module), at(earlier)) {
                        prop_assert!(before < mine, "{:?}", steps);
                    }
                }
            }
        }

        #[test]
        fn twenty_orders_in_a_row_end_at_the_last(
            observed in observed(),
            orders in proptest::collection::vec((workloads(), 0_usize..8), 20),
            last in workloads(),
        ) {
            // Each is superseded after some of its steps.
            let mut host = observed;
            for (desired, taken) in &orders {
                let steps = plan(&host, desired);
                host = carried_out(&host, desired, steps.get(..*taken).unwrap_or(&steps));
            }
            let steps = plan(&host, &last);
            let host = carried_out(&host, &last, &steps);
            prop_assert_eq!(plan(&host, &last), vec![]);
            let mut names: Vec<_> = last.iter().map(|w| &w.module).collect();
            names.sort();
            prop_assert_eq!(host.iter().map(|o| &o.module).collect::<Vec<_>>(), names);
        }

        #[test]
        fn what_comes_back_is_the_good_one_as_who_the_instance_is_now(key: [u8; 32]) {
            let good = workload("a", 1, &[]);
            let bad = Workload { key: PublicKey::from_raw(key), ..workload("a", 2, &[]) };
            let back = fallback(&good, &bad).unwrap();
            prop_assert_eq!((&back.release, &back.key), (&good.release, &bad.key));
            // Declared so again, it goes on.
            let again = Workload { key: bad.key, ..good };
            prop_assert!(back.runs_as(&again));
        }
    }

    #[test]
    fn what_was_bad_is_not_tried_again_until_it_is_declared_otherwise() {
        let bad = workload("a", 2, &[]);
        let there = Observed {
            rejected: Some(bad.clone()),
            ..held(&workload("a", 1, &[]))
        };
        let asked = |health| Workload {
            health,
            ..bad.clone()
        };
        let health = mesh_model::Health {
            probe: mesh_model::Probe::Tcp("127.0.0.1:1".to_owned()),
            every: 1,
            within: 2,
        };
        let a = &bad.module;
        for (standing, wanted, expected) in [
            (Standing::Held, bad.clone(), None),
            (Standing::Lost, bad.clone(), Some(Step::Start(a))),
            (Standing::Held, workload("a", 1, &[]), None),
            (
                Standing::Held,
                workload("a", 3, &[]),
                Some(Step::Replace(a)),
            ),
            // It was judged by another question.
            (Standing::Held, asked(Some(health)), Some(Step::Replace(a))),
        ] {
            let there = Observed {
                standing,
                ..there.clone()
            };
            assert_eq!(step(Some(&there), &wanted), expected, "{wanted:?}");
        }
    }

    #[test]
    fn nothing_comes_back_that_would_be_the_same_again() {
        let good = workload("a", 1, &[]);
        let bad = Workload {
            key: PublicKey::from_raw([1; 32]),
            ..good.clone()
        };
        assert_eq!(fallback(&good, &bad), None);
    }

    #[test]
    fn what_comes_back_has_the_secrets_it_had_each_as_it_is_today() {
        let with = |release, secrets: &[(&str, u64)]| {
            let handed = |(name, version): &(&str, u64)| {
                let sealed = Sealed(vec![]);
                let handed = mesh_model::HandedSecret {
                    version: *version,
                    sealed,
                };
                (name.parse().unwrap(), handed)
            };
            Workload {
                secrets: secrets.iter().map(handed).collect(),
                ..workload("a", release, &[])
            }
        };
        let good = with(1, &[("A", 1), ("B", 1)]);
        for (bad, back) in [
            (with(2, &[]), Some(good.clone())),
            (
                with(2, &[("B", 2), ("C", 1)]),
                Some(with(1, &[("A", 1), ("B", 2)])),
            ),
            // That it lost one may be all that is wrong with it.
            (with(1, &[("B", 1)]), Some(good.clone())),
            // With today's value it would be the same again.
            (with(1, &[("A", 2), ("B", 1)]), None),
        ] {
            assert_eq!(fallback(&good, &bad), back);
        }
    }

    #[test]
    fn a_cycle_is_started_all_the_same() {
        let desired = [
            workload("a", 0, &["b"]),
            workload("b", 0, &["a", "absent"]),
            workload("c", 0, &["c"]),
        ];
        let steps = plan(&[], &desired);
        assert_eq!(
            steps,
            ["c", "a", "b"]
                .map(|name| Step::Start(
                    &desired
                        .iter()
                        .find(|w| w.module.as_str() == name)
                        .unwrap()
                        .module
                ))
                .to_vec()
        );
        let waits = predecessors(&desired);
        let of = |name: &str| {
            let waits = &waits[&name.parse::<ModuleName>().unwrap()];
            waits.iter().map(ModuleName::as_str).collect::<Vec<_>>()
        };
        assert_eq!((of("a"), of("b"), of("c")), (vec![], vec!["a"], vec![]));
    }
}
