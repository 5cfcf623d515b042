//! The order of starts: who waits for whom, whether it is a process or a container.

use std::collections::{BTreeMap, BTreeSet};

use mesh_control::convergence::{declared_as, predecessors};
use mesh_model::{ModuleName, Workload};
use tokio::sync::watch;

/// The one place of a host where it is known who may start; clones are the same gate.
///
/// A module is open once it is good, or was tried: what comes after it need not wait for it any longer. Whoever carries
/// out an order declares all of it first, and then opens each of its modules sooner or later, those it leaves alone at
/// once; a start whose verdict is bounded bounds the wait of what comes after it.
#[derive(Debug, Clone)]
pub(crate) struct Gate(watch::Sender<Ways>);

#[derive(Debug, Default)]
struct Ways {
    /// For each module that is desired, which others it starts after.
    waits: BTreeMap<ModuleName, BTreeSet<ModuleName>>,
    modules: BTreeMap<ModuleName, Way>,
}

#[derive(Debug)]
struct Way {
    workload: Workload,
    open: bool,
}

impl Gate {
    pub(crate) fn new() -> Self {
        Self(watch::Sender::new(Ways::default()))
    }

    /// Takes everything that is desired on this host, of either kind. What is new, or declared otherwise than before, is
    /// closed; what is no longer desired holds up nobody.
    pub(crate) fn declare(&self, desired: &[Workload]) {
        self.0.send_modify(|ways| {
            ways.waits = predecessors(desired);
            let mut before = std::mem::take(&mut ways.modules);
            for workload in desired {
                let known = before.remove(&workload.module);
                let open =
                    known.is_some_and(|known| known.open && declared_as(&known.workload, workload));
                let way = Way {
                    workload: workload.clone(),
                    open,
                };
                ways.modules.insert(workload.module.clone(), way);
            }
        });
    }

    /// Lets those start that come after it: it is good, or was tried. Says nothing of it as it is declared by now, if that
    /// is otherwise.
    pub(crate) fn open(&self, workload: &Workload) {
        self.0.send_if_modified(|ways| {
            let way = ways.modules.get_mut(&workload.module);
            let Some(way) = way.filter(|way| !way.open && declared_as(&way.workload, workload))
            else {
                return false;
            };
            way.open = true;
            true
        });
    }

    /// Waits until this module may start. What it comes after and is not desired on this host is no reason to wait.
    pub(crate) async fn pass(&self, module: &ModuleName) {
        let may = |ways: &Ways| {
            let waits = ways.waits.get(module).into_iter().flatten();
            waits
                .filter_map(|other| ways.modules.get(other))
                .all(|way| way.open)
        };
        // It ends only with the gate, and the gate is held here.
        drop(self.0.subscribe().wait_for(may).await);
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use mesh_model::{PublicKey, Restart, Run, Sealed};

    use super::*;

    fn workload(module: &str, release: &str, after: &[&str]) -> Workload {
        Workload {
            module: module.parse().unwrap(),
            release: release.to_owned(),
            run: Run::command([module.to_owned()]).unwrap(),
            after: after.iter().map(|name| name.parse().unwrap()).collect(),
            env: [].into(),
            restart: Restart::Always,
            health: None,
            secrets: [].into(),
            pull_secret: None,
            key: PublicKey::from_raw([0; 32]),
            credential: Sealed(vec![]),
            accepts: [].into(),
        }
    }

    fn passes(gate: &Gate, module: &str) -> bool {
        let module = module.parse().unwrap();
        let passed = pin!(gate.pass(&module)).poll(&mut Context::from_waker(Waker::noop()));
        passed == Poll::Ready(())
    }

    #[test]
    fn a_module_passes_once_each_it_comes_after_is_open() {
        let gate = Gate::new();
        let (db, cache) = (workload("db", "1", &[]), workload("cache", "1", &[]));
        let app = workload("app", "1", &["db", "cache", "elsewhere"]);
        gate.declare(&[app.clone(), db.clone(), cache.clone()]);
        assert!(passes(&gate, "db") && passes(&gate, "cache") && !passes(&gate, "app"));
        gate.open(&db);
        assert!(!passes(&gate, "app"));
        gate.open(&cache);
        assert!(passes(&gate, "app"));

        // Declared as before it stays open, otherwise it is closed.
        gate.declare(&[app.clone(), db, cache.clone()]);
        assert!(passes(&gate, "app"));
        let newer = workload("db", "2", &[]);
        gate.declare(&[app.clone(), newer.clone(), cache]);
        assert!(!passes(&gate, "app"));
        // The verdict on what it was before comes too late.
        gate.open(&workload("db", "1", &[]));
        assert!(!passes(&gate, "app"));
        gate.open(&newer);
        assert!(passes(&gate, "app"));

        // What is no longer desired holds up nobody.
        gate.declare(&[app.clone(), workload("db", "3", &[])]);
        assert!(!passes(&gate, "app"));
        gate.declare(&[app]);
        assert!(passes(&gate, "app"));
    }

    #[test]
    fn a_circle_holds_up_nobody_for_ever() {
        let gate = Gate::new();
        let (a, b) = (workload("a", "1", &["b"]), workload("b", "1", &["a"]));
        gate.declare(&[a.clone(), b]);
        assert!(passes(&gate, "a") && !passes(&gate, "b"));
        gate.open(&a);
        assert!(passes(&gate, "b"));
    }
}
