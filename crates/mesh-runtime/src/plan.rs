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
    /// Start it, when every start before this one was tried.
    Start(&'a ModuleName),
}

impl<'a> Step<'a> {
    /// The module it is about.
    pub const fn module(self) -> &'a ModuleName {
        match self {
            Self::Stop(module) | Self::Start(module) => module,
        }
    }
}

/// The steps from what is observed to what is desired: first what ends, then what starts, in the order of `after`.
///
/// What runs as it is desired has no step. Of two desired workloads of one module the later counts.
pub fn plan<'a>(observed: &'a [Observed], desired: &'a [Workload]) -> Vec<Step<'a>> {
    let desired: BTreeMap<&ModuleName, &Workload> = desired
        .iter()
        .map(|wanted| (&wanted.module, wanted))
        .collect();
    let mut stops = BTreeSet::new();
    let mut kept = BTreeSet::new();
    for instance in observed {
        let same = desired
            .get(&instance.module)
            .zip(instance.workload.as_ref())
            .is_some_and(|(wanted, running)| running.runs_as(wanted));
        match (same, instance.standing) {
            (true, Standing::Held) => {
                kept.insert(&instance.module);
            }
            (true, Standing::Lost) => {}
            (false, _) => {
                stops.insert(&instance.module);
            }
        }
    }
    let starts = in_order(&desired)
        .into_iter()
        .filter(|module| !kept.contains(module));
    stops
        .iter()
        .map(|module| Step::Stop(module))
        .chain(starts.map(Step::Start))
        .collect()
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
                    let before = host.insert((*module).clone(), held(wanted));
                    assert!(
                        before.is_none_or(|o| o.standing == Standing::Lost),
                        "started a second copy of {module}"
                    );
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
        (workloads(), proptest::collection::vec(0_u8..4, NAMES.len())).prop_map(|(all, fates)| {
            all.iter()
                .zip(fates)
                .map(|(workload, fate)| Observed {
                    workload: (fate != 0).then(|| workload.clone()),
                    standing: if fate == 1 {
                        Standing::Lost
                    } else {
                        Standing::Held
                    },
                    ..held(workload)
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
                });
                let touched = steps.iter().any(|step| *step.module() == instance.module);
                prop_assert!(!(same && touched), "{:?}", steps);
            }
        }

        #[test]
        fn nothing_starts_before_what_it_comes_after(observed in observed(), desired in workloads()) {
            let steps = plan(&observed, &desired);
            let at = |module: &ModuleName| steps.iter().position(|step| *step == Step::Start(module));
            for wanted in &desired {
                for earlier in &wanted.after {
                    if let (Some(mine), Some(before)) = (at(&wanted.module), at(earlier)) {
                        prop_assert!(before < mine, "{:?}", steps);
                    }
                }
            }
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
    }
}
