//! The laws: what holds after every step, and what has to have come right at the end.

use std::collections::BTreeSet;

use mesh_control::{
    Change, Effect, Fact, FactKey, Message, MessageKey, NodeSettlement, Settlement,
};
use mesh_derive::subject;
use mesh_model::{
    Declaration, EnrolmentAnswer, Filter, Generation, Heartbeat, NodeName, Principal, Report,
    Scheduling, Subject, TokenId,
};

use super::store::Facts;
use super::world::World;

/// How long a message may be held, in milliseconds.
pub(super) const BOUND: u64 = 40_000;

impl World {
    /// What the controller says is looked at before it is carried out.
    pub(super) fn look_at_effect(&mut self, effect: &Effect) {
        match effect {
            Effect::Settle(key, Settlement::Done) => self.look_at_done(*key),
            Effect::Settle(key, Settlement::Hold(_)) => self.look_at_hold(*key),
            Effect::Declare { declaration, .. } => self.look_at_declaration(declaration),
            Effect::Answer { to, answer } => self.look_at_answer(to, answer),
            Effect::Reply {
                result: Ok(revision),
                ..
            } => {
                let there = self.store.facts.contains_key(&FactKey::Audit(*revision));
                self.law(there, || {
                    format!("revision {revision} was confirmed and is not in the store")
                });
            }
            Effect::Stop(why) => self.law(false, || format!("the controller stopped: {why}")),
            Effect::Park { key, .. } => {
                self.tried.insert(*key);
            }
            Effect::Store { changes, .. } => self.look_at_recording(changes),
            Effect::Reopen | Effect::Assert { .. } | Effect::Reply { .. } | Effect::Note(_) => {}
        }
    }

    /// A report that is settled is in the store, or about another generation than is declared, or parked.
    fn look_at_done(&mut self, key: MessageKey) {
        self.held.remove(&key);
        self.tried.remove(&key);
        let waiting = self.bus.control.get(&key).cloned();
        let parked = self.bus.parked.contains(&key);
        match waiting.map(|waiting| waiting.message) {
            Some(Message::Report(node, report)) => {
                let superseded = self.declared(&node) != Some(report.id.generation);
                let there = self.recorded.contains(&report.id) || self.passed(&report);
                let sender = node == report.id.node;
                self.law(parked || sender && (superseded || there), || {
                    format!("report {} was settled and is nowhere", report.id)
                });
            }
            Some(Message::Malformed(_)) => {
                self.law(parked, || {
                    format!("{key:?} makes no sense, and was settled without a copy")
                });
            }
            Some(Message::Enrolment(..) | Message::Announced(..)) | None => {}
        }
    }

    /// A report is recorded only if it is about what its node was told last.
    fn look_at_recording(&mut self, changes: &[Change]) {
        for change in changes {
            let (Change::Put(Fact::Report(report)), Some(controller)) = (change, &self.controller)
            else {
                continue;
            };
            let told = controller.declarations().get(&report.id.node);
            let current = told.is_some_and(|told| told.generation == report.id.generation);
            self.law(current, || {
                format!("superseded report {} is recorded", report.id)
            });
        }
    }

    /// Whether the store keeps so many newer reports of the node that this one would have to make room at once.
    fn passed(&self, report: &Report) -> bool {
        let order = |report: &Report| (report.id.generation, report.id.seq);
        let kept = self.store.facts.values().filter(|fact| {
            matches!(fact, Fact::Report(other) if other.id.node == report.id.node && order(other) > order(report))
        });
        kept.count() >= self.reports_kept
    }

    fn declared(&self, node: &NodeName) -> Option<Generation> {
        match self.store.facts.get(&FactKey::Declaration(node.clone())) {
            Some(Fact::Declaration(declaration)) => Some(declaration.generation),
            _ => None,
        }
    }

    /// What is held is younger than the bound, unless no copy of it could be kept.
    fn look_at_hold(&mut self, key: MessageKey) {
        let now = self.time().as_millis();
        let since = *self.held.entry(key).or_insert(now);
        let tried = self.tried.contains(&key);
        self.law(tried || now.saturating_sub(since) < BOUND, || {
            format!("{key:?} is held for {} ms", now.saturating_sub(since))
        });
    }

    /// Generations grow, none has two contents, and a node is told only once its consumer waits.
    fn look_at_declaration(&mut self, declaration: &Declaration) {
        let (node, generation) = (declaration.node.clone(), declaration.generation);
        self.trace(format!("declare {node} {generation}"));
        let newest = self.newest.insert(node.clone(), generation);
        self.law(newest.is_none_or(|newest| newest <= generation), || {
            format!("{node} is told {generation} after {newest:?}")
        });
        let contents = self.contents.entry((node.clone(), generation));
        let before = contents.or_insert_with(|| declaration.workloads.clone());
        let same = *before == declaration.workloads;
        self.law(same, || {
            format!("{node} is told two things at {generation}")
        });
        let on_disk = self.declared(&node).is_none_or(|there| there >= generation);
        self.law(on_disk, || {
            format!("{node} is told {generation}, which is not in the store")
        });
        let serves = self.bus.serves(&node);
        self.law(serves, || {
            format!("{node} is told {generation} and has no consumer")
        });
        self.look_at_placement(declaration);
    }

    /// A node an operator drained is told to run nothing, and no module is told to more nodes than it counts.
    fn look_at_placement(&mut self, declaration: &Declaration) {
        let Some(controller) = &self.controller else {
            return;
        };
        let (node, records) = (&declaration.node, controller.records());
        let drained = records
            .nodes
            .get(node)
            .is_some_and(|record| record.scheduling == Scheduling::Drained);
        let empty = declaration.workloads.is_empty();
        let over = declaration.workloads.iter().find(|workload| {
            let placement = records.declared.placements.get(&workload.module);
            let count = placement.and_then(|placement| placement.count);
            let told = controller.declarations().values();
            let has =
                |told: &&Declaration| told.workloads.iter().any(|it| it.module == workload.module);
            count.is_some_and(|count| told.filter(has).count() > count.get() as usize)
        });
        let over = over.map(|workload| workload.module.clone());
        let node = node.clone();
        self.law(!drained || empty, || {
            format!("{node} is drained and told to run something")
        });
        self.law(over.is_none(), || {
            format!("{over:?} is told to more nodes than it counts")
        });
    }

    /// Who is accepted is in the store and known to the bus; answers go into the joiner's own inbox.
    fn look_at_answer(&mut self, to: &Subject, answer: &EnrolmentAnswer) {
        let joiner = to
            .tokens()
            .nth(3)
            .and_then(|token| token.parse::<TokenId>().ok());
        let own = joiner.as_ref().is_some_and(|token| {
            let inbox = subject::inbox(&Principal::Joiner(token.clone()));
            Filter::from(to).is_subset_of(&inbox)
        });
        self.law(own, || format!("an answer goes to {to}"));
        let EnrolmentAnswer::Accepted { node, .. } = answer else {
            return;
        };
        self.trace(format!("accepted {node} to {to}"));
        let there = match self.store.facts.get(&FactKey::Node(node.clone())) {
            Some(Fact::Node(_, record)) => {
                Some(&record.token) == joiner.as_ref() && self.bus.admits(&record.key, node)
            }
            _ => false,
        };
        // While a commit is in doubt, or not heard of, what the controller knows is what was there before it.
        let known = self.controller.as_ref().is_some_and(|controller| {
            let record = controller.records().nodes.get(node);
            record.is_some_and(|record| Some(&record.token) == joiner.as_ref())
        });
        let in_doubt = self.store.dead || self.store.unheard > 0;
        let there = there || in_doubt && known;
        self.law(there && self.bus.serves(node), || {
            format!("{node} is accepted and not a node on the bus and in the store")
        });
    }

    /// A node comes into the store with its token spent, and a token makes one key a node.
    pub(super) fn look_at_commit(&mut self, before: &Facts, changes: &[Change]) {
        let puts = |change: &Change| match change {
            Change::Put(fact) => Some(fact.clone()),
            Change::Remove(_) => None,
        };
        let put: Vec<Fact> = changes.iter().filter_map(puts).collect();
        for fact in &put {
            // Only what is on disk now: the commit may have failed.
            if self.store.facts.get(&fact.key()) != Some(fact) {
                continue;
            }
            match fact {
                Fact::Node(node, record) => {
                    let old = before.get(&fact.key());
                    let same_key = matches!(old, Some(Fact::Node(_, old)) if old.key == record.key);
                    let spends = put.iter().any(|other| {
                        matches!(other, Fact::Token(id, token) if *id == record.token
                            && token.spent.as_ref().is_some_and(|spent| spent.key == record.key))
                    });
                    self.law(same_key || spends, || {
                        format!("{node} came into the store and its token was not spent")
                    });
                }
                Fact::Token(id, token) => {
                    if let Some(spent) = &token.spent {
                        let key = self
                            .spent
                            .entry(id.clone())
                            .or_insert_with(|| spent.key.clone());
                        let same = *key == spent.key;
                        self.law(same, || format!("token {id} made two keys nodes"));
                    }
                }
                Fact::Report(report) => {
                    let new = self.recorded.insert(report.id.clone());
                    self.ran.recorded += u64::from(new);
                }
                _ => {}
            }
        }
    }

    /// A heartbeat makes nothing durable, except that a joiner has arrived.
    pub(super) fn beat(&mut self, heartbeat: Heartbeat) {
        let before = self.store.queue.len();
        self.with(|controller, now| controller.handle_heartbeat(heartbeat, now));
        let new: Vec<_> = self.store.queue.iter().skip(before).collect();
        let only_arrivals = new.iter().all(|(_, changes)| {
            let arrival = |c: &Change| matches!(c, Change::Put(Fact::Token(_, t)) if t.spent.as_ref().is_some_and(|s| s.arrived));
            changes.iter().all(arrival)
        });
        self.law(only_arrivals, || "a heartbeat was stored".to_owned());
    }

    /// A node acknowledges its newest declaration only once the bus has a report about it.
    pub(super) fn held_to_its_report(&mut self, at: usize, sequence: u64, how: NodeSettlement) {
        let Some(host) = self.hosts.get(at) else {
            return;
        };
        let Some(told) = self.bus.told.get(&host.node) else {
            return;
        };
        let generation = told.declaration.generation;
        let newest = host.agent.as_ref().and_then(|agent| agent.declaration());
        let answers = told.sequence == sequence
            && how == NodeSettlement::Done
            && newest.is_some_and(|newest| newest.generation == generation);
        let confirmed = host.confirmed.contains(&generation);
        let node = host.node.clone();
        self.law(!answers || confirmed, || {
            format!("{node} acknowledged {generation} before the bus had its report")
        });
    }

    /// Nothing is wrong any more, for long enough: everything has come right.
    pub(super) fn look_at_the_end(&mut self) {
        let now = self.time();
        let Some(controller) = self.controller.take() else {
            return self.law(false, || "no controller runs at the end".to_owned());
        };
        let status = controller.status(now);
        // A host that was refused goes on asking.
        let asks = |message: &Message| matches!(message, Message::Enrolment(..));
        let waiting = self.bus.control.values().filter(|it| !asks(&it.message));
        let waits = (controller.held(), waiting.count());
        self.law(waits == (0, 0), || {
            format!("held and waiting at the end: {waits:?}")
        });
        self.law(controller.is_settled(), || {
            format!("it is not settled at the end: {:?}", status.waiting_for)
        });
        let mut living: BTreeSet<NodeName> = BTreeSet::new();
        for host in std::mem::take(&mut self.hosts) {
            let node = &host.node;
            let record = controller.records().nodes.get(node);
            let (Some(agent), true) = (
                &host.agent,
                record.is_some_and(|record| record.key == host.key),
            ) else {
                continue;
            };
            // What the store never takes is parked and not asked for again: it is all there is to hear of that node.
            let unstorable = host
                .said
                .as_ref()
                .is_some_and(|said| self.store.never.contains(said));
            if !unstorable {
                living.insert(node.clone());
            }
            let declared = controller.declarations().get(node).map(|d| d.generation);
            let applied = agent.applied();
            self.law(applied.is_some() && applied == declared, || {
                format!("{node} has applied {applied:?}; declared is {declared:?}")
            });
            let newest = controller
                .newest_report(node)
                .map(|report| report.id.clone());
            let said = host.said;
            self.law(unstorable || newest.is_some() && newest == said, || {
                format!("{node} said {said:?} last; recorded is {newest:?}")
            });
        }
        for sentence in status.waiting_for {
            let about = |node: &NodeName| sentence.starts_with(&format!("node {node}:"));
            let bad = living.iter().any(about);
            self.law(!bad, || format!("waited for at the end: {sentence}"));
        }
    }
}
