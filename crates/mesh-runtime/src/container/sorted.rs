//! Which of the containers found of a module stay, and which go.

use mesh_control::convergence::{Observed, Standing, Step, step};
use mesh_model::{ModuleName, Workload};

use super::engine::{Seen, State};

/// The containers of one module, by what is to become of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Sorted {
    /// The one that is as it is wanted.
    pub(crate) same: Option<Seen>,
    /// The one it takes the place of, which stays until the new one is known to be good.
    pub(crate) former: Option<Seen>,
    /// Those that go at once.
    pub(crate) spare: Vec<Seen>,
}

impl Sorted {
    /// Sorts `seen`, the oldest first, for a module that is to be `wanted`.
    ///
    /// Of several that are as wanted the one that is furthest stays: two came to be when an answer was lost. Of several
    /// others the oldest, where it is older than that one: what replaces another is younger, and the other goes as soon as
    /// it is good. What is younger was on trial in place of what is wanted again.
    pub(crate) fn of(seen: Vec<Seen>, wanted: &Workload) -> Self {
        let mut sorted = Self::default();
        for one in seen {
            let usable = one.state != State::Leaving;
            let known = one.workload.as_ref().filter(|_| usable);
            match known {
                Some(workload) if workload.runs_as(wanted) => match &sorted.same {
                    Some(same) if far(same) >= far(&one) => sorted.spare.push(one),
                    _ => sorted.spare.extend(sorted.same.replace(one)),
                },
                Some(_) if sorted.former.is_none() && sorted.same.is_none() => {
                    sorted.former = Some(one);
                }
                // Nobody can tell what it is, so that it could not come back; or it is on trial and not wanted any more.
                _ => sorted.spare.push(one),
            }
        }
        sorted
    }
}

/// How far a container is towards running.
const fn far(seen: &Seen) -> u8 {
    match seen.state {
        State::Running => 4,
        State::Paused => 3,
        State::Ended(_) => 2,
        State::Created => 1,
        State::Leaving => 0,
    }
}

/// What came instead of `declared` and is to go on: nothing when `declared` itself is to run.
///
/// `seen` is what is there, the oldest first; `rejected` what was tried and bad.
pub(crate) fn instead(
    seen: &[Seen],
    declared: &Workload,
    rejected: Option<&Workload>,
) -> Option<Workload> {
    let usable = |seen: &&Seen| seen.state != State::Leaving && seen.workload.is_some();
    let there = seen.iter().find(usable)?.workload.clone()?;
    let observed = Observed {
        module: declared.module.clone(),
        workload: Some(there.clone()),
        standing: Standing::Held,
        rejected: rejected.cloned(),
    };
    let stays = !matches!(step(Some(&observed), declared), Some(Step::Replace(_)));
    (stays && !there.runs_as(declared)).then_some(there)
}

/// What the n-th container of a module is called. For people: it is known by its labels.
pub(crate) fn name(module: &ModuleName, number: u32) -> String {
    format!("mesh-{module}-{number}")
}

/// Whether a container of this module may be called so.
pub(crate) fn is_name(module: &ModuleName, text: &str) -> bool {
    let number = text
        .strip_prefix("mesh-")
        .and_then(|rest| rest.strip_prefix(module.as_str()))
        .and_then(|rest| rest.strip_prefix('-'));
    number.is_some_and(|number| number.parse::<u32>().is_ok())
}

/// The lowest number of which no container of the module is called.
pub(crate) fn free_number(module: &ModuleName, seen: &[Seen], from: u32) -> u32 {
    (from..=u32::MAX)
        .find(|number| {
            let name = name(module, *number);
            seen.iter().all(|one| one.name != name)
        })
        .unwrap_or(from)
}

#[cfg(test)]
mod tests {
    use super::super::engine::Exit;
    use super::super::label::tests::whole;
    use super::*;

    fn release(release: &str) -> Workload {
        Workload {
            release: release.to_owned(),
            ..whole()
        }
    }

    fn seen(id: &str, workload: Option<Workload>, state: State) -> Seen {
        Seen {
            id: id.to_owned(),
            name: format!("mesh-shop-{id}"),
            created: id.to_owned(),
            owner: Some("me".to_owned()),
            module: Some("shop".to_owned()),
            spec: None,
            workload,
            state,
            pid: None,
            image: None,
        }
    }

    fn ended() -> State {
        State::Ended(Exit {
            code: 0,
            oom: false,
            at: String::new(),
        })
    }

    fn ids(sorted: &Sorted) -> (Option<&str>, Option<&str>, Vec<&str>) {
        (
            sorted.same.as_ref().map(|seen| seen.id.as_str()),
            sorted.former.as_ref().map(|seen| seen.id.as_str()),
            sorted.spare.iter().map(|seen| seen.id.as_str()).collect(),
        )
    }

    #[test]
    fn what_is_found_is_kept_or_goes() {
        let (old, new) = (|| Some(release("1")), || Some(release("2")));
        for (found, expected) in [
            (vec![], (None, None, vec![])),
            (
                vec![seen("1", new(), State::Running)],
                (Some("1"), None, vec![]),
            ),
            // A create whose answer was lost, and was asked for again under another name.
            (
                vec![
                    seen("1", new(), State::Created),
                    seen("2", new(), State::Running),
                ],
                (Some("2"), None, vec!["1"]),
            ),
            (
                vec![
                    seen("1", new(), State::Running),
                    seen("2", new(), State::Running),
                ],
                (Some("1"), None, vec!["2"]),
            ),
            // A replacement on its way.
            (
                vec![seen("1", old(), ended()), seen("2", new(), State::Running)],
                (Some("2"), Some("1"), vec![]),
            ),
            // The first of two replacements was superseded before it was good.
            (
                vec![
                    seen("1", old(), State::Running),
                    seen("2", Some(release("3")), State::Running),
                ],
                (None, Some("1"), vec!["2"]),
            ),
            // What was on trial is not wanted any more, and what it was to replace is.
            (
                vec![seen("1", new(), ended()), seen("2", old(), State::Running)],
                (Some("1"), None, vec!["2"]),
            ),
            (
                vec![
                    seen("1", new(), State::Running),
                    seen("2", old(), State::Running),
                    seen("3", Some(release("3")), State::Created),
                ],
                (Some("1"), None, vec!["2", "3"]),
            ),
            (
                vec![
                    seen("1", None, State::Running),
                    seen("2", new(), State::Leaving),
                    seen("3", new(), State::Paused),
                ],
                (Some("3"), None, vec!["1", "2"]),
            ),
        ] {
            let sorted = Sorted::of(found, &release("2"));
            assert_eq!(ids(&sorted), expected);
        }
    }

    #[test]
    fn what_was_bad_is_not_tried_again_until_it_is_declared_otherwise() {
        let old = [seen("1", Some(release("1")), State::Running)];
        let bad = release("2");
        assert_eq!(instead(&old, &bad, Some(&bad)), Some(release("1")));
        assert_eq!(instead(&old, &release("3"), Some(&bad)), None);
        assert_eq!(instead(&old, &bad, None), None);
        assert_eq!(instead(&old, &release("1"), Some(&bad)), None);
        assert_eq!(instead(&[], &bad, Some(&bad)), None);
    }

    #[test]
    fn a_name_is_free_when_no_container_of_the_module_has_it() {
        let module: ModuleName = "shop".parse().unwrap();
        let taken = ["1", "2", "4"].map(|id| seen(id, None, State::Running));
        assert_eq!(free_number(&module, &taken, 1), 3);
        assert_eq!(free_number(&module, &taken, 4), 5);
        assert_eq!(free_number(&module, &[], 1), 1);
        for (text, is) in [
            ("mesh-shop-1", true),
            ("mesh-shop-12", true),
            ("mesh-shop-x", false),
            ("mesh-shop2-1", false),
            ("shop", false),
        ] {
            assert_eq!(is_name(&module, text), is, "{text}");
        }
    }
}
