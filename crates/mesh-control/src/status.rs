//! What there is to see: one value that answers `status`, `node ls` and the dashboard.

mod seats;

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use mesh_model::{
    BusKind, Generation, Labels, MeshName, ModuleName, ModuleReport, ModuleState, Moving, NodeName,
    Outcome, Revision, Scheduling, Seq, Timestamp,
};
use serde::{Deserialize, Serialize};

use crate::controller::{Controller, Tally};
use crate::placement::Mint;
use crate::spread::shortfalls;

pub use seats::{Candidate, HeldBy, SeatStatus};

/// The mesh at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// Its name.
    pub mesh: MeshName,
    /// The version of its records.
    pub revision: Revision,
    /// When this was so.
    pub at: Timestamp,
    /// The buses it is on, where that is said: one, or both.
    pub buses: Vec<BusKind>,
    /// Every node.
    pub nodes: Vec<NodeStatus>,
    /// Every module.
    pub modules: Vec<ModuleStatus>,
    /// Every seat.
    pub seats: Vec<SeatStatus>,
    /// What is held.
    pub window: WindowStatus,
    /// Whether the store takes commits.
    pub store_up: bool,
    /// Whether the bus is what follows from the records, and every node was told.
    pub settled: bool,
    /// What is being waited for, in sentences; empty when all is as declared.
    pub waiting_for: Vec<String>,
    /// Counts since the controller started.
    pub tally: Tally,
}

/// How a node does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NodeState {
    /// Heard lately, and as declared.
    Ready,
    /// Heard lately, working on its declaration.
    Converging,
    /// Heard lately; something could not be carried out.
    Failed,
    /// Never heard since the controller started.
    Unheard,
    /// Heard once, and not lately.
    Lost,
}

impl NodeState {
    /// The word for tables and metric labels.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Converging => "converging",
            Self::Failed => "failed",
            Self::Unheard => "unheard",
            Self::Lost => "lost",
        }
    }
}

/// One node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeStatus {
    /// Its name.
    pub node: NodeName,
    /// How it does.
    pub state: NodeState,
    /// Its labels.
    pub labels: Labels,
    /// Its bus.
    pub bus: BusKind,
    /// How far it is on its way from one bus to the other.
    pub moving: Option<MovingStatus>,
    /// Whether modules are placed on it.
    #[serde(default)]
    pub scheduling: Scheduling,
    /// What it was last told.
    pub declared: Generation,
    /// What it last applied, by its own account.
    pub applied: Option<Generation>,
    /// Its newest recorded report.
    pub reported: Option<(Generation, Seq)>,
    /// Milliseconds since it was heard.
    pub heard_ago: Option<u64>,
    /// It misses its consumer's sign of life.
    pub deaf: bool,
    /// Its agent's version.
    pub version: Option<String>,
    /// Why it is not ready, in one sentence.
    pub reason: Option<String>,
    /// Its modules as it reported them.
    pub modules: BTreeMap<ModuleName, ModuleReport>,
    /// How far it is with what takes long, a line for each module, by its newest heartbeat.
    #[serde(default)]
    pub doing: BTreeMap<ModuleName, String>,
    /// Which run of its agent is heard: when that began, by the node's clock.
    #[serde(default)]
    pub session: Option<Timestamp>,
    /// An earlier run that is heard as well, and not listened to: another host has the same credential.
    #[serde(default)]
    pub rival: Option<Timestamp>,
}

/// A node on its way from one bus to the other, without its keys.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "step", rename_all = "kebab-case")]
pub enum MovingStatus {
    /// It was offered another bus, and has not been heard there.
    Proving {
        /// The other bus.
        to: BusKind,
        /// When it was offered.
        since: Timestamp,
    },
    /// Its bus is another one; what it could do on the one before is being withdrawn.
    Leaving {
        /// The bus before.
        from: BusKind,
    },
}

impl From<&Moving> for MovingStatus {
    fn from(moving: &Moving) -> Self {
        match moving {
            Moving::Proving { to, since, .. } => Self::Proving {
                to: *to,
                since: *since,
            },
            Moving::Leaving { from } => Self::Leaving { from: *from },
        }
    }
}

/// One module.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModuleStatus {
    /// Its name.
    pub module: ModuleName,
    /// The release declared.
    pub release: String,
    /// The nodes it is placed on.
    pub nodes: Vec<NodeName>,
    /// On how many of those that are meant it is to run, where that was declared.
    #[serde(default)]
    pub count: Option<NonZeroU32>,
    /// On how many of them it runs.
    pub running: usize,
    /// Why it is not placed as it was declared: nowhere, or on fewer nodes.
    pub unplaced: Option<String>,
    /// From which of its nodes an operator keeps it, where that is not what it waits for.
    #[serde(default)]
    pub kept_off: Option<String>,
}

/// What is held.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WindowStatus {
    /// How many messages.
    pub held: usize,
    /// How many at once, at most, since the controller started.
    pub peak: usize,
    /// Milliseconds until the oldest is let go.
    pub lets_go_in: Option<u64>,
}

/// Milliseconds after which a node that is not heard is lost: three times the longest pause between two of its heartbeats that
/// may be set.
pub const LOST_AFTER: u64 = 30_000;

impl<M: Mint> Controller<M> {
    /// Everything there is to see.
    pub fn status(&self, now: Timestamp) -> Status {
        let nodes: Vec<NodeStatus> = self
            .records()
            .nodes
            .keys()
            .map(|node| self.node_status(node, now))
            .collect();
        let modules = self.module_statuses(&nodes);
        let records = self.records();
        let seats = self.seat_statuses(now);
        let window = self.window();
        Status {
            mesh: records.declared.mesh.clone(),
            revision: records.revision,
            at: now,
            buses: self.places().keys().copied().collect(),
            window: WindowStatus {
                held: window.held(),
                peak: window.peak(),
                lets_go_in: window.remaining(now.as_millis()),
            },
            store_up: self.store_is_up(),
            settled: self.is_settled(),
            waiting_for: self.waiting_for(&nodes, &modules, &seats),
            seats,
            tally: self.tally(),
            nodes,
            modules,
        }
    }

    fn node_status(&self, node: &NodeName, now: Timestamp) -> NodeStatus {
        let record = self.records().nodes.get(node);
        let presence = self.presence().get(node);
        let heartbeat = presence.map(|presence| &presence.heartbeat);
        let report = self.newest_report(node);
        let declared = self
            .declarations()
            .get(node)
            .map_or_else(Generation::default, |declaration| declaration.generation);
        let heard_ago = presence.map(|presence| now.since(presence.heard));
        let current = report.filter(|report| report.id.generation == declared);
        let moving = record.and_then(|record| record.moving.as_ref());
        let (mut state, mut reason) = match (heard_ago, current.map(|report| &report.outcome)) {
            (None, _) => (NodeState::Unheard, Some("not heard yet".to_owned())),
            (Some(ago), _) if ago >= LOST_AFTER => {
                let reason = format!("not heard for {} s", ago / 1000);
                (NodeState::Lost, Some(reason))
            }
            (_, Some(Outcome::Converged)) => (NodeState::Ready, None),
            (_, Some(Outcome::Failed { reason })) => (NodeState::Failed, Some(reason.clone())),
            (_, Some(Outcome::Converging)) => {
                let modules = current.map(|report| &report.modules);
                let reason = format!("working on {declared}{}", under_way(modules));
                (NodeState::Converging, Some(reason))
            }
            (_, None) => {
                let reason = format!("has not reported on {declared} yet");
                (NodeState::Converging, Some(reason))
            }
        };
        // Its modules may do nothing on either bus.
        if let (NodeState::Ready, Some(Moving::Leaving { from })) = (state, moving) {
            state = NodeState::Converging;
            reason = Some(format!("leaving {from}"));
        }
        NodeStatus {
            node: node.clone(),
            state,
            labels: record
                .map(|record| record.labels.clone())
                .unwrap_or_default(),
            bus: record.map(|record| record.bus).unwrap_or_default(),
            moving: moving.map(MovingStatus::from),
            scheduling: record.map(|record| record.scheduling).unwrap_or_default(),
            declared,
            applied: heartbeat.and_then(|heartbeat| heartbeat.applied),
            reported: report.map(|report| (report.id.generation, report.id.seq)),
            heard_ago,
            deaf: heartbeat.is_some_and(|heartbeat| heartbeat.deaf),
            version: heartbeat.map(|heartbeat| heartbeat.version.clone()),
            reason,
            modules: report
                .map(|report| report.modules.clone())
                .unwrap_or_default(),
            // What a node that is lost was doing says nothing of what it does.
            doing: heartbeat
                .filter(|_| state != NodeState::Lost)
                .map(|heartbeat| heartbeat.doing.clone())
                .unwrap_or_default(),
            session: heartbeat.map(|heartbeat| Timestamp::from_millis(heartbeat.session)),
            rival: self.rival(node, now).map(Timestamp::from_millis),
        }
    }

    fn module_statuses(&self, nodes: &[NodeStatus]) -> Vec<ModuleStatus> {
        let records = self.records();
        let mut short = shortfalls(records);
        let mut placed: BTreeMap<&ModuleName, Vec<NodeName>> = BTreeMap::new();
        for instance in records.instances.keys() {
            let on = placed.entry(&instance.module).or_default();
            on.push(instance.node.clone());
        }
        let mut running: BTreeMap<&ModuleName, usize> = BTreeMap::new();
        for (module, report) in nodes.iter().flat_map(|node| &node.modules) {
            // The release before serves on while the image of the next is fetched.
            let serves = report.state == ModuleState::Pulling && report.pid.is_some();
            if report.state == ModuleState::Running || serves {
                *running.entry(module).or_default() += 1;
            }
        }
        let modules = records.declared.modules.values();
        modules
            .map(|manifest| {
                let short = short.remove(&manifest.module);
                let (unplaced, kept_off) = match short {
                    Some(short) if short.awaited => (Some(short.why), None),
                    short => (None, short.map(|short| short.why)),
                };
                ModuleStatus {
                    module: manifest.module.clone(),
                    release: manifest.release.clone(),
                    nodes: placed.remove(&manifest.module).unwrap_or_default(),
                    count: records
                        .declared
                        .placements
                        .get(&manifest.module)
                        .and_then(|placement| placement.count),
                    running: running.get(&manifest.module).copied().unwrap_or_default(),
                    unplaced,
                    kept_off,
                }
            })
            .collect()
    }

    /// What has to come true before all is as declared.
    fn waiting_for(
        &self,
        nodes: &[NodeStatus],
        modules: &[ModuleStatus],
        seats: &[SeatStatus],
    ) -> Vec<String> {
        let mut waiting = Vec::new();
        if !self.store_is_up() {
            waiting.push("the store takes no commits".to_owned());
        }
        if !self.bus_is_current() {
            waiting.push("the bus is not yet what follows from the records".to_owned());
        }
        for node in nodes {
            if let Some(reason) = node
                .reason
                .as_ref()
                .filter(|_| node.state != NodeState::Ready)
            {
                waiting.push(format!("node {}: {reason}", node.node));
            }
        }
        for module in modules {
            if let Some(why) = &module.unplaced {
                waiting.push(format!("module {} is not placed: {why}", module.module));
            }
        }
        let troubled = seats.iter();
        let troubled = troubled.filter_map(|seat| Some((&seat.seat, seat.trouble.as_ref()?)));
        waiting.extend(troubled.map(|(seat, what)| format!("seat {seat}: {what}")));
        waiting
    }
}

/// Modules named among those that are under way; the rest are counted.
const NAMED: usize = 5;

/// What is under way on a node that is not done yet.
fn under_way(modules: Option<&BTreeMap<ModuleName, ModuleReport>>) -> String {
    let modules = modules.into_iter().flatten();
    let under_way: Vec<String> = modules
        .filter(|(_, report)| !matches!(report.state, ModuleState::Running | ModuleState::Ended))
        .map(|(module, report)| format!("{module} {}", report.state.word()))
        .collect();
    if under_way.is_empty() {
        return String::new();
    }
    let named: Vec<&str> = under_way.iter().take(NAMED).map(String::as_str).collect();
    let rest = match under_way.len() - named.len() {
        0 => String::new(),
        rest => format!(" and {rest} more"),
    };
    format!(": {}{rest}", named.join(", "))
}
