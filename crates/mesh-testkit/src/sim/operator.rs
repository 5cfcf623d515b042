//! The operator, and what befalls a mesh.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;

use mesh_control::{Command, CommandId, Controller, Fact, FactKey, Message};
use mesh_model::{
    Declared, Enrolment, Labels, Manifest, ModuleName, NodeName, Placement, Report, Restart, Run,
    Scheduling, Sealed, SeatName, Selector, TokenRecord,
};

use super::host::Host;
use super::make::{box_key, named, user_key};
use super::world::{Event, World};

impl World {
    /// An operator does something.
    pub(super) fn operate(&mut self) {
        if self.is_resting() {
            return;
        }
        let known = self.hosts.len();
        match self.chance.between(0, 99) {
            _ if known < 3 => self.invite(),
            0..=24 => self.invite(),
            25..=64 => {
                let declared = self.declared_at_random();
                let if_revision = None;
                self.command(Command::Apply {
                    declared,
                    if_revision,
                });
            }
            65..=79 => {
                let seat = named("desk");
                let holder = self.chance.percent(60).then(|| self.module());
                self.command(Command::Assign { seat, holder });
            }
            80..=87 => {
                let node = self.node();
                self.command(Command::RemoveNode { node });
            }
            88..=90 => {
                let node = self.node();
                let choice = [
                    Scheduling::Open,
                    Scheduling::Open,
                    Scheduling::Cordoned,
                    Scheduling::Drained,
                ];
                let scheduling = self.chance.one_of(&choice).unwrap_or_default();
                self.command(Command::Schedule { node, scheduling });
            }
            91..=92 => {
                let id = named(&format!("t{}", self.chance.between(1, self.made)));
                self.command(Command::RevokeToken { id });
            }
            93..=95 => {
                let secret = named("TOKEN");
                let command = if self.chance.percent(80) {
                    let sealed = Sealed(self.made.to_be_bytes().to_vec());
                    Command::SetSecret { secret, sealed }
                } else {
                    Command::RemoveSecret { secret }
                };
                self.command(command);
            }
            _ => {
                let (node, labels) = (self.node(), self.labels());
                self.command(Command::Label { node, labels });
            }
        }
        let most = if known < 3 { 4_000 } else { 25_000 };
        self.after(500, most, Event::Operate);
    }

    fn command(&mut self, command: Command) {
        self.commands += 1;
        let id = CommandId(self.commands);
        self.trace(format!("command {} {}", id.0, kind(&command)));
        self.with(|controller, now| {
            controller.handle_command(id, command, "operator".to_owned(), now)
        });
    }

    /// A token, and a host that has it: a new one, or one that was a node and kept its disk.
    fn invite(&mut self) {
        self.made += 1;
        let (made, node) = (self.made, self.node());
        let token = named(&format!("t{made}"));
        let is_node = |controller: &Controller<_>| controller.records().nodes.contains_key(&node);
        let rejoin = self.controller.as_ref().is_some_and(is_node);
        let ttl = if self.chance.percent(15) {
            20_000
        } else {
            3_600_000
        };
        let record = TokenRecord {
            bus: mesh_model::BusKind::Nats,
            key: user_key(made << 16 | 1),
            expires: self.time().plus(ttl),
            node: Some(node.clone()),
            labels: self.labels(),
            rejoin,
            spent: None,
        };
        let id = named(&format!("t{made}"));
        self.command(Command::CreateToken { id, token: record });
        let keys = (user_key(made << 16 | 2), box_key(made << 16 | 3));
        let mut host = Host::new(node.clone(), token, keys);
        let old = self
            .hosts
            .iter_mut()
            .rev()
            .find(|old| old.node == node && old.joined);
        if let (Some(old), true) = (old, self.chance.percent(50)) {
            // The same machine, enrolled anew: its agent ends, its disk stays.
            old.agent = None;
            old.joined = false;
            old.life += 1;
            old.token = named("none");
            host.disk = old.disk.clone();
            host.carried = old.carried;
            host.ahead = old.ahead;
        }
        self.hosts.push(host);
        self.after(0, 5_000, Event::Ask(self.hosts.len() - 1));
    }

    fn node(&mut self) -> NodeName {
        named(&format!("n{}", self.chance.between(0, 4)))
    }

    fn module(&mut self) -> ModuleName {
        named(&format!("m{}", self.chance.between(0, 3)))
    }

    fn labels(&mut self) -> Labels {
        let zone = self.chance.between(0, 1).to_string();
        BTreeMap::from([("zone".to_owned(), zone)])
    }

    fn declared_at_random(&mut self) -> Declared {
        let seat: SeatName = named("desk");
        let (mut modules, mut placements) = (BTreeMap::new(), BTreeMap::new());
        for at in 0..4 {
            if self.chance.percent(40) {
                continue;
            }
            let module: ModuleName = named(&format!("m{at}"));
            let program = "serve".to_owned();
            let manifest = Manifest {
                module: module.clone(),
                release: format!("r{}", self.chance.between(0, 2)),
                run: Run::Command {
                    program,
                    args: Vec::new(),
                },
                after: BTreeSet::new(),
                env: BTreeMap::new(),
                restart: Restart::Always,
                emits: BTreeSet::from([named("said")]),
                follows: BTreeSet::new(),
                can_hold: BTreeSet::from([seat.clone()]),
                sends_to: BTreeSet::from([seat.clone()]),
                health: None,
                secrets: if self.chance.percent(10) {
                    [named("TOKEN")].into()
                } else {
                    [].into()
                },
            };
            let on = if self.chance.percent(50) {
                Selector::Labels(self.labels())
            } else {
                Selector::Nodes((0..3).map(|_| self.node()).collect())
            };
            let most = match &on {
                Selector::Nodes(nodes) => nodes.len() as u64,
                Selector::Labels(_) => 3,
            };
            let count = u32::try_from(self.chance.between(1, most)).unwrap_or(1);
            let count = NonZeroU32::new(count).filter(|_| self.chance.percent(40));
            modules.insert(module.clone(), manifest);
            placements.insert(module, Placement { on, count });
        }
        let holder = self.chance.percent(50).then(|| self.module());
        let holder = holder.filter(|module| modules.contains_key(module));
        Declared {
            mesh: named("simulated"),
            modules,
            seats: BTreeMap::from([(seat, holder.into())]),
            placements,
        }
    }

    /// Something goes wrong.
    pub(super) fn misfortune(&mut self) {
        if self.is_resting() {
            return;
        }
        let count = self.hosts.len().max(1) as u64;
        let at = usize::try_from(self.chance.between(0, count - 1)).unwrap_or(0);
        match self.chance.between(0, 99) {
            0..=24 => self.store_refuses(),
            25..=39 => {
                self.kill_controller();
                self.after(500, 40_000, Event::Start);
            }
            40..=64 => self.host_suffers(at),
            65..=72 => self.after(0, 0, Event::Stumble(at)),
            73..=79 => {
                let ahead = self.chance.between(0, 600_000);
                // A new incarnation is not drawn from a clock that is wrong.
                self.ahead = if self.unmarked { self.ahead } else { ahead };
                // What was held before counts by the clock before.
                self.tried.extend(self.bus.control.keys().copied());
                self.trace(format!("the controller's clock is {} ms ahead", self.ahead));
            }
            80..=86 => {
                self.trace("the bus loses its definitions".to_owned());
                self.bus.told.clear();
                self.with(Controller::handle_disturbed);
            }
            87..=90 => self.copies.push(self.store.facts.clone()),
            91..=95 => self.restore(),
            _ => self.nonsense(at),
        }
        self.after(1_000, 20_000, Event::Misfortune);
    }

    fn store_refuses(&mut self) {
        let pause = self.chance.between(500, 70_000);
        self.trace(format!("the store refuses for {pause} ms"));
        self.store.refuses_until = self.now + pause;
    }

    fn host_suffers(&mut self, at: usize) {
        let until = self.now + self.chance.between(500, 40_000);
        let (what, ahead) = (self.chance.between(0, 4), self.chance.between(0, 1_200_000));
        let Some(host) = self.hosts.get_mut(at) else {
            return;
        };
        match what {
            0 => {
                host.agent = None;
                host.life += 1;
                self.at(until, Event::AgentStart(at));
            }
            1 => host.disk_full_until = until,
            2 => host.runtime_fails_until = until,
            3 => host.deaf_until = until,
            _ => host.ahead = ahead,
        }
        self.trace(format!("host {at} suffers {what} until {until}"));
    }

    /// The store is lost, and an older copy takes its place. The clock from which the new incarnation is drawn is right:
    /// it is past every earlier one.
    fn restore(&mut self) {
        let Some(copy) = self.chance.one_of(&self.copies) else {
            return;
        };
        if !copy.contains_key(&FactKey::Mesh) {
            return;
        }
        self.kill_controller();
        self.trace("an older copy of the store takes its place".to_owned());
        self.ran.restores += 1;
        self.ahead = (self.newest_clock + 2_000).saturating_sub(self.now);
        self.recorded.clear();
        self.spent.clear();
        for fact in copy.values() {
            match fact {
                Fact::Report(report) => {
                    self.recorded.insert(report.id.clone());
                }
                Fact::Token(id, token) => {
                    let spent = token.spent.as_ref();
                    self.spent
                        .extend(spent.map(|spent| (id.clone(), spent.key.clone())));
                }
                _ => {}
            }
        }
        self.store.facts = copy;
        self.unmarked = true;
        self.start_controller();
    }

    /// Somebody sends what makes no sense, or is not theirs to say.
    fn nonsense(&mut self, at: usize) {
        let Some(host) = self.hosts.get(at) else {
            return;
        };
        let message = match self.chance.between(0, 2) {
            0 => Message::Malformed("no form of ours".to_owned()),
            1 => {
                let other = self.node();
                match self.some_report() {
                    Some(report) => Message::Report(other, report),
                    None => return,
                }
            }
            _ => {
                let request = Enrolment {
                    node: Some(host.node.clone()),
                    key: host.key.clone(),
                    box_key: host.box_key.clone(),
                    reply: named("mesh.node.n0.declare"),
                    clock: self.time(),
                };
                Message::Enrolment(host.token.clone(), request)
            }
        };
        self.publish(message);
    }

    fn some_report(&self) -> Option<Report> {
        self.store.facts.values().find_map(|fact| match fact {
            Fact::Report(report) => Some(report.clone()),
            _ => None,
        })
    }
}

const fn kind(command: &Command) -> &'static str {
    match command {
        Command::Apply { .. } => "apply",
        Command::Assign { .. } => "assign",
        Command::CreateToken { .. } => "create token",
        Command::RemoveNode { .. } => "remove node",
        Command::RevokeToken { .. } => "revoke token",
        Command::Label { .. } => "label",
        Command::Schedule { .. } => "schedule",
        Command::Move { .. } => "move",
        Command::SetSecret { .. } => "set secret",
        Command::RemoveSecret { .. } => "remove secret",
        Command::Rotate { .. } => "rotate",
    }
}
