//! Hosts: they ask to become nodes, run an agent, lose their power, their disk's room and their link.

use std::collections::{BTreeMap, BTreeSet};

use mesh_control::{
    Agent, AgentEffect, AgentSettings, InHand, Message, NodeSettlement, Remembered,
};
use mesh_derive::subject;
use mesh_model::{
    BoxPublicKey, Declaration, Enrolment, EnrolmentAnswer, Generation, ModuleName, ModuleReport,
    ModuleState, NodeName, PublicKey, Report, ReportId, Timestamp, TokenId,
};

use super::world::{Event, World};

/// One machine.
#[derive(Debug)]
pub(super) struct Host {
    pub(super) node: NodeName,
    pub(super) key: PublicKey,
    pub(super) box_key: BoxPublicKey,
    pub(super) token: TokenId,
    /// Milliseconds its clock is ahead.
    pub(super) ahead: u64,
    /// It was accepted, and knows it.
    pub(super) joined: bool,
    pub(super) agent: Option<Agent>,
    /// Which run of the agent.
    pub(super) life: u64,
    pub(super) disk: Remembered,
    pub(super) disk_full_until: u64,
    pub(super) runtime_fails_until: u64,
    pub(super) deaf_until: u64,
    /// The newest generation its runtime was given.
    pub(super) carried: Option<Generation>,
    pub(super) states: BTreeMap<ModuleName, ModuleReport>,
    /// Generations the bus has confirmed a report about.
    pub(super) confirmed: BTreeSet<Generation>,
    /// What it said last.
    pub(super) said: Option<ReportId>,
    hands: BTreeMap<InHand, u64>,
    hand: u64,
}

impl Host {
    pub(super) fn new(node: NodeName, token: TokenId, keys: (PublicKey, BoxPublicKey)) -> Self {
        Self {
            node,
            key: keys.0,
            box_key: keys.1,
            token,
            ahead: 0,
            joined: false,
            agent: None,
            life: 0,
            disk: Remembered::default(),
            disk_full_until: 0,
            runtime_fails_until: 0,
            deaf_until: 0,
            carried: None,
            states: BTreeMap::new(),
            confirmed: BTreeSet::new(),
            said: None,
            hands: BTreeMap::new(),
            hand: 0,
        }
    }
}

/// How long the bus waits for a node's acknowledgement.
pub(super) const ACK_WAIT: u64 = 60_000;

impl World {
    pub(super) fn host_time(&self, host: &Host) -> Timestamp {
        Timestamp::from_millis(self.now + host.ahead)
    }

    /// A host that is no node yet asks, and asks again until it is answered.
    pub(super) fn ask(&mut self, at: usize) {
        let Some(host) = self.hosts.get(at).filter(|host| !host.joined) else {
            return;
        };
        if self.bus.admits_joiner(&host.token) {
            let request = Enrolment {
                node: Some(host.node.clone()),
                key: host.key.clone(),
                box_key: host.box_key.clone(),
                reply: subject::enrolment_answer(&host.token),
                clock: self.host_time(host),
            };
            let message = Message::Enrolment(host.token.clone(), request);
            self.publish(message);
        }
        self.after(5_000, 15_000, Event::Ask(at));
    }

    pub(super) fn answered(&mut self, at: usize, answer: &EnrolmentAnswer) {
        let Some(host) = self.hosts.get_mut(at).filter(|host| !host.joined) else {
            return;
        };
        if matches!(answer, EnrolmentAnswer::Accepted { .. }) {
            host.joined = true;
            self.ran.enrolled += 1;
            self.after(0, 3_000, Event::AgentStart(at));
        }
    }

    pub(super) fn start_agent(&mut self, at: usize) {
        let Some(host) = self
            .hosts
            .get_mut(at)
            .filter(|h| h.joined && h.agent.is_none())
        else {
            return;
        };
        let now = Timestamp::from_millis(self.now + host.ahead);
        let mut settings = AgentSettings::new(host.node.clone(), now.as_millis());
        settings.idle = Some(std::time::Duration::from_secs(30));
        let (agent, effects) = Agent::start(settings, host.disk.clone(), now);
        host.agent = Some(agent);
        host.life += 1;
        host.hands.clear();
        let life = host.life;
        self.agent_does(at, effects);
        self.with_agent(at, |agent, now| agent.handle_link(true, now));
        self.after(0, 1_000, Event::AgentTick(at, life));
    }

    pub(super) fn agent_tick(&mut self, at: usize, life: u64) {
        let Some(host) = self.hosts.get_mut(at) else {
            return;
        };
        if host.agent.is_none() || host.life != life {
            return;
        }
        let heard = self.bus.serves(&host.node)
            && self.bus.admits(&host.key, &host.node)
            && self.now >= host.deaf_until;
        if let (true, Some(agent)) = (heard, &mut host.agent) {
            agent.handle_idle(Timestamp::from_millis(self.now + host.ahead));
        }
        self.with_agent(at, Agent::tick);
        self.after(1_000, 1_000, Event::AgentTick(at, life));
    }

    /// Lets an agent handle something, and carries out what it says, if it runs.
    pub(super) fn with_agent(
        &mut self,
        at: usize,
        handle: impl FnOnce(&mut Agent, Timestamp) -> Vec<AgentEffect>,
    ) {
        let Some(host) = self.hosts.get_mut(at) else {
            return;
        };
        let now = Timestamp::from_millis(self.now + host.ahead);
        let Some(agent) = &mut host.agent else { return };
        let effects = handle(agent, now);
        self.agent_does(at, effects);
    }

    fn agent_does(&mut self, at: usize, effects: Vec<AgentEffect>) {
        for effect in effects {
            match effect {
                AgentEffect::Keep(remembered) => {
                    let Some(host) = self.hosts.get_mut(at) else {
                        return;
                    };
                    let result = if self.now < host.disk_full_until {
                        Err("no space left".to_owned())
                    } else {
                        host.disk = remembered;
                        Ok(())
                    };
                    self.with_agent(at, |agent, now| agent.handle_kept(result, now));
                }
                AgentEffect::CarryOut(declaration) => self.carry_out(at, declaration),
                AgentEffect::Settle(in_hand, how) => self.agent_settles(at, in_hand, how),
                AgentEffect::Report(report) => self.report(at, report),
                AgentEffect::Heartbeat(heartbeat) => {
                    let admitted = self
                        .hosts
                        .get(at)
                        .is_some_and(|h| self.bus.admits(&h.key, &h.node));
                    if admitted && !self.fault(10) {
                        self.after(1, 200, Event::Beat(heartbeat));
                    }
                }
                AgentEffect::ListenAgain | AgentEffect::Reconnect => {
                    if let Some(host) = self.hosts.get_mut(at) {
                        host.deaf_until = 0;
                    }
                    self.with_agent(at, |agent, now| agent.handle_link(true, now));
                }
                AgentEffect::Note(_) => {}
            }
        }
    }

    fn carry_out(&mut self, at: usize, declaration: Declaration) {
        let Some(host) = self.hosts.get_mut(at) else {
            return;
        };
        let generation = declaration.generation;
        let before = host.carried.replace(generation);
        let on_disk = host.disk.declaration.as_ref() == Some(&declaration);
        let life = host.life;
        let what = format!("host {at} ({}) carries out {generation}", host.node);
        self.law(before.is_none_or(|before| before <= generation), || {
            format!("{what} after {before:?}: an older generation was applied")
        });
        self.law(on_disk, || format!("{what}, which is not on its disk"));
        self.trace(what);
        let slow = if self.fault(20) { 90_000 } else { 2_000 };
        let event = Event::CarriedOut(at, life, declaration);
        self.after(50, slow, event);
    }

    pub(super) fn carried_out(&mut self, at: usize, life: u64, declaration: Declaration) {
        let fails = self.fault(10);
        let Some(host) = self.hosts.get_mut(at).filter(|host| host.life == life) else {
            return;
        };
        if host.carried > Some(declaration.generation) {
            // A newer one has taken its place with the runtime.
            return;
        }
        let result = if fails || self.now < host.runtime_fails_until {
            Err("the runtime is not there".to_owned())
        } else {
            host.states = declaration
                .workloads
                .iter()
                .map(|workload| {
                    let report = ModuleReport {
                        release: workload.release.clone(),
                        state: ModuleState::Running,
                        pid: Some(1),
                        restarts: 0,
                        reason: None,
                        image: None,
                        last_exit: None,
                        repairs: 0,
                    };
                    (workload.module.clone(), report)
                })
                .collect();
            Ok(host.states.clone())
        };
        self.with_agent(at, |agent, now| {
            agent.handle_carried_out(declaration.generation, result, now)
        });
    }

    /// A module ends and comes back.
    pub(super) fn stumble(&mut self, at: usize) {
        let Some(host) = self.hosts.get_mut(at) else {
            return;
        };
        let Some(report) = host.states.values_mut().next() else {
            return;
        };
        if report.state == ModuleState::Running {
            report.state = ModuleState::Backoff;
            report.restarts += 1;
            self.after(200, 20_000, Event::Stumble(at));
        } else {
            report.state = ModuleState::Running;
        }
        let Some(states) = self.hosts.get(at).map(|host| host.states.clone()) else {
            return;
        };
        self.with_agent(at, |agent, now| agent.handle_states(states, now));
    }

    /// A report goes out: it arrives once, twice or not at all, and the sender hears which, or not.
    fn report(&mut self, at: usize, report: Report) {
        let Some(host) = self.hosts.get_mut(at) else {
            return;
        };
        let (life, id) = (host.life, report.id.clone());
        if host.said.as_ref().is_none_or(|said| said.seq < id.seq) {
            host.said = Some(id.clone());
        }
        let admitted = self.bus.admits(&host.key, &host.node);
        let (lost, unconfirmed, twice) = (self.fault(10), self.fault(10), self.fault(5));
        let refused = || Err("not confirmed".to_owned());
        let result = if !admitted || lost {
            refused()
        } else {
            for _ in 0..=u8::from(twice) {
                let event = Event::Arrive(at, report.clone());
                self.after(1, 50, event);
            }
            if unconfirmed { refused() } else { Ok(()) }
        };
        // The confirmation comes after what it confirms.
        self.after(51, 400, Event::Reported(at, life, id, result));
    }

    /// A report arrives, if its sender is still let in.
    pub(super) fn arrive(&mut self, at: usize, report: Report) {
        if let Some(host) = self.hosts.get(at) {
            let node = host.node.clone();
            self.publish(Message::Report(node, report));
        }
    }

    pub(super) fn reported(
        &mut self,
        at: usize,
        life: u64,
        id: ReportId,
        result: Result<(), String>,
    ) {
        let seq = id.seq;
        if let Some(host) = self.hosts.get_mut(at).filter(|host| host.life == life) {
            if result.is_ok() {
                host.confirmed.insert(id.generation);
            }
            self.with_agent(at, |agent, now| agent.handle_reported(seq, result, now));
        }
    }

    /// The bus delivers a node's newest declaration, until it is acknowledged.
    pub(super) fn deliver_to_node(&mut self, node: &NodeName, sequence: u64) {
        let now = self.now;
        let Some(told) = self.bus.told.get(node) else {
            return;
        };
        if told.sequence != sequence || told.acknowledged {
            return;
        }
        if now < told.working_until {
            let event = Event::NodeDeliver(node.clone(), sequence);
            return self.at(told.working_until, event);
        }
        let (declaration, before) = (told.declaration.clone(), told.before.clone());
        let to = (0..self.hosts.len()).find(|at| {
            self.hosts.get(*at).is_some_and(|host| {
                host.agent.is_some() && host.node == *node && self.bus.admits(&host.key, node)
            })
        });
        let event = Event::NodeDeliver(node.clone(), sequence);
        let deaf = |host: &Host| now < host.deaf_until;
        let Some(at) = to.filter(|at| !self.hosts.get(*at).is_some_and(deaf)) else {
            return self.after(5_000, 5_000, event);
        };
        self.after(ACK_WAIT, ACK_WAIT, event);
        if !self.fault(5) {
            self.hand_over(at, sequence, declaration);
        }
        if let (true, Some(before)) = (self.fault(10), before) {
            // One that was on its way for long: the bus has no more of it.
            self.hand_over(at, 0, before);
        }
    }

    fn hand_over(&mut self, at: usize, sequence: u64, declaration: Declaration) {
        if let Some(host) = self.hosts.get_mut(at) {
            host.hand += 1;
            let in_hand = InHand(host.hand);
            host.hands.insert(in_hand, sequence);
            self.with_agent(at, |agent, now| {
                agent.handle_declaration(in_hand, declaration, now)
            });
        }
    }

    fn agent_settles(&mut self, at: usize, in_hand: InHand, how: NodeSettlement) {
        let Some(host) = self.hosts.get_mut(at) else {
            return;
        };
        let node = host.node.clone();
        let sequence = match how {
            NodeSettlement::Done => host.hands.remove(&in_hand),
            NodeSettlement::Working => host.hands.get(&in_hand).copied(),
        };
        let Some(sequence) = sequence else { return };
        self.held_to_its_report(at, sequence, how);
        if self.fault(5) {
            return;
        }
        let working_until = self.now + ACK_WAIT;
        let told = self.bus.told.get_mut(&node);
        if let Some(told) = told.filter(|told| told.sequence == sequence) {
            match how {
                NodeSettlement::Done => told.acknowledged = true,
                NodeSettlement::Working => told.working_until = working_until,
            }
        }
    }
}
