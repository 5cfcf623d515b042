//! What the operator's surface is answered with.

mod logs;
mod proof;
mod secrets;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use mesh_api::{
    ApiError, Applied, Apply, Assign, Caller, CanAnswer, CanRequest, Code, Control, DoctorFinding,
    DoctorReport, Label, LogQuery, LogRecords, Move, PlanRequest, RefuseStore, ReportLine,
    ReportList, Rotate, Schedule, SecretList, SecretValue, TokenCreated, TokenLine, TokenList,
    TokenRequest, Verified, VerifyRequest,
};
use mesh_auth::keys::{BoxPublic, SigningPublic, UserKey};
use mesh_auth::token::Token;
use mesh_bus::{Backlog, BusError, ControllerBus, ControllerHandle, Gone, LogDesk};
use mesh_control::{Command, CommandError, Controller, Fact, NodeStatus, Preview, Status};
use mesh_model::BusKind;
use mesh_model::{MeshName, ModuleName, NodeName, SeatName, SecretName, TokenId, TokenRecord};
use tokio::sync::Mutex;
use tokio::task::JoinSet;

use crate::ledger::StoreLedger;
use crate::managed::Reach;
use crate::mint::SystemMint;
use crate::run::{Reached, Service};

/// The controller, as its operators see it.
#[derive(Debug)]
pub(crate) struct Surface<B> {
    shared: Arc<Shared<B>>,
}

#[derive(Debug)]
struct Shared<B> {
    handle: ControllerHandle<SystemMint>,
    bus: Arc<B>,
    ledger: StoreLedger,
    logs: Arc<LogDesk<B>>,
    pinned: SigningPublic,
    /// What secrets are sealed to as they come.
    sealer: BoxPublic,
    default: BusKind,
    /// Milliseconds a credential that is replaced stays good, unless the operator says otherwise.
    overlap: u64,
    reaches: BTreeMap<BusKind, Reach>,
    allow_faults: bool,
    faults: Mutex<JoinSet<()>>,
}

impl<B> Clone for Surface<B> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<B: ControllerBus> Surface<B> {
    /// Over a running controller.
    pub(crate) fn new(
        handle: ControllerHandle<SystemMint>,
        bus: Arc<B>,
        service: &Service<'_>,
        reached: Reached,
    ) -> Self {
        let signer = service.keys.signer();
        let logs = LogDesk::new(Arc::clone(&bus), signer, mesh_host::now, mesh_host::seed());
        Self {
            shared: Arc::new(Shared {
                logs: Arc::new(logs),
                handle,
                bus,
                ledger: service.store.ledger.clone(),
                pinned: service.keys.signing.public(),
                sealer: service.keys.secrets.public(),
                default: service.config.bus.default_kind(),
                overlap: service.config.rotation.overlap,
                reaches: reached.reaches,
                allow_faults: service.cli.allow_faults,
                faults: Mutex::new(JoinSet::new()),
            }),
        }
    }

    /// Hears what nodes say of logs, until `stop` is ready.
    pub(crate) fn hear_logs(
        &self,
        stop: impl Future<Output = ()> + Send + 'static,
    ) -> impl Future<Output = ()> + Send + 'static {
        let logs = Arc::clone(&self.shared.logs);
        async move { logs.run(stop).await }
    }

    /// The bus a token is to be good on, and how hosts reach that.
    async fn reach_for(&self, request: &TokenRequest) -> Result<(BusKind, &Reach), ApiError> {
        let shared = &self.shared;
        let rejoins = request.node.clone().filter(|_| request.rejoin);
        let look = move |controller: &Controller<SystemMint>, _| {
            let node = controller.records().nodes.get(&rejoins?);
            node.map(|record| record.bus)
        };
        let own = shared.handle.look(look).await.map_err(gone)?;
        let bus = bus_for(request.bus, own, shared.default, &shared.reaches)?;
        let reach = shared.reaches.get(&bus);
        reach.map(|reach| (bus, reach)).ok_or_else(|| not_on(bus))
    }

    /// Whether the name a token is for is nobody's, or is to be taken over.
    async fn free_name(&self, request: &TokenRequest) -> Result<(), ApiError> {
        let (Some(node), false) = (request.node.clone(), request.rejoin) else {
            return Ok(());
        };
        let asked = node.clone();
        let look = move |controller: &Controller<SystemMint>, _| {
            controller.records().nodes.contains_key(&asked)
        };
        if self.shared.handle.look(look).await.map_err(gone)? {
            let message = format!(
                "node {node} is enrolled; to replace its key use `meshctl node rejoin {node}`, or name another node"
            );
            return Err(ApiError::new(Code::Conflict, message));
        }
        Ok(())
    }

    async fn command(&self, command: Command, who: &Caller) -> Result<Applied, ApiError> {
        let handle = &self.shared.handle;
        let made = handle.command(command, who.to_string());
        // Stored it is soon; true on the bus it may become much later, and the operator wants to know that.
        let Ok(made) = tokio::time::timeout(PATIENCE, made).await else {
            let message = format!(
                "not true on the bus after {} s; it may become so yet: look at `meshctl status`",
                PATIENCE.as_secs()
            );
            return Err(ApiError::new(Code::TimedOut, message));
        };
        let revision = made.map_err(gone)??;
        Ok(Applied { revision })
    }
}

/// How long an operator's request waits for the bus.
const PATIENCE: Duration = Duration::from_mins(1);
/// How long the bus is asked what waits for seats, by whoever looks at the mesh.
const BACKLOG_WITHIN: Duration = Duration::from_secs(2);
/// The longest a rehearsed refusal may last.
const LONGEST_FAULT: u64 = 3_600_000;

fn gone(gone: Gone) -> ApiError {
    ApiError::new(Code::Unavailable, gone.to_string())
}

/// What there is to say of a node whose credential two agents have.
fn of_rival(node: &NodeStatus) -> Option<DoctorFinding> {
    node.rival?;
    let node = &node.node;
    Some(DoctorFinding {
        warning: true,
        text: format!(
            "node {node}: two agents speak with its credential, and the one that started later is believed; end the other, or \
             have one of them rejoin with `meshctl node rejoin {node}`, which cuts the other off"
        ),
    })
}

fn failed(error: impl std::fmt::Display) -> ApiError {
    ApiError::new(Code::Failed, error.to_string())
}

impl<B: ControllerBus> Control for Surface<B> {
    async fn status(&self) -> Result<Status, ApiError> {
        let look = self.shared.handle.look(Controller::status);
        let mut status = look.await.map_err(gone)?;
        if !status.seats.is_empty() {
            // What waits is the bus's to tell; while it does not, all the rest is told.
            let asked = tokio::time::timeout(BACKLOG_WITHIN, self.shared.bus.backlogs()).await;
            with_backlogs(&mut status, &asked.unwrap_or(Ok(BTreeMap::new())));
        }
        Ok(status)
    }

    async fn plan(&self, request: PlanRequest) -> Result<Preview, ApiError> {
        let handle = &self.shared.handle;
        let look = handle.look(move |controller, _| controller.preview(&request.declared));
        Ok(look.await.map_err(gone)??)
    }

    async fn apply(&self, request: Apply, who: Caller) -> Result<Applied, ApiError> {
        let command = Command::Apply {
            declared: request.declared,
            if_revision: request.if_revision,
        };
        self.command(command, &who).await
    }

    async fn assign(
        &self,
        seat: SeatName,
        request: Assign,
        who: Caller,
    ) -> Result<Applied, ApiError> {
        let holder = request.holder;
        self.command(Command::Assign { seat, holder }, &who).await
    }

    async fn label(
        &self,
        node: NodeName,
        request: Label,
        who: Caller,
    ) -> Result<Applied, ApiError> {
        let labels = request.labels;
        self.command(Command::Label { node, labels }, &who).await
    }

    async fn schedule(
        &self,
        node: NodeName,
        request: Schedule,
        who: Caller,
    ) -> Result<Applied, ApiError> {
        let scheduling = request.scheduling;
        self.command(Command::Schedule { node, scheduling }, &who)
            .await
    }

    async fn move_node(
        &self,
        node: NodeName,
        request: Move,
        who: Caller,
    ) -> Result<Applied, ApiError> {
        let to = request.to;
        self.command(Command::Move { node, to }, &who).await
    }

    async fn remove_node(&self, node: NodeName, who: Caller) -> Result<Applied, ApiError> {
        self.command(Command::RemoveNode { node }, &who).await
    }

    async fn create_token(
        &self,
        request: TokenRequest,
        who: Caller,
    ) -> Result<TokenCreated, ApiError> {
        let longest = TokenRecord::LONGEST_SECS;
        if !(1..=longest).contains(&request.ttl_secs) {
            let days = longest / (24 * 3600);
            let message = format!("a token is good for 1 s to {longest} s ({days} days)");
            return Err(ApiError::new(Code::Invalid, message));
        }
        if request.rejoin && request.node.is_none() {
            let message = "a token to rejoin with names the node it is for";
            return Err(ApiError::new(Code::Invalid, message));
        }
        let (bus, reach) = self.reach_for(&request).await?;
        self.free_name(&request).await?;
        let key = UserKey::generate().map_err(failed)?;
        let expires = mesh_host::now().plus(request.ttl_secs.saturating_mul(1000));
        let id = token_id(&key)?;
        let record = TokenRecord {
            bus,
            key: mesh_agent::public_on(bus, &key).map_err(failed)?,
            expires,
            node: request.node.clone(),
            labels: request.labels,
            rejoin: request.rejoin,
            spent: None,
        };
        let command = Command::CreateToken {
            id: id.clone(),
            token: record,
        };
        self.command(command, &who).await?;
        let shared = &self.shared;
        let mesh = shared
            .handle
            .look(|controller, _| controller.records().declared.mesh.clone());
        let mesh: MeshName = mesh.await.map_err(gone)?;
        let token = Token {
            mesh,
            urls: reach.urls.clone(),
            ca: reach.ca.as_ref().map(|ca| ca.fingerprint),
            id: id.clone(),
            joiner: key,
            controller: shared.pinned.clone(),
            node: request.node,
            expires: expires.as_secs(),
        };
        Ok(TokenCreated {
            id,
            token: token.render().expose().to_owned(),
            expires,
        })
    }

    async fn tokens(&self) -> Result<TokenList, ApiError> {
        let look = self.shared.handle.look(|controller, _| {
            let tokens = controller.records().tokens.iter();
            let line = |(id, token): (&TokenId, &TokenRecord)| TokenLine {
                id: id.clone(),
                expires: token.expires,
                bus: token.bus,
                node: token.node.clone(),
                spent_by: token.spent.as_ref().map(|spent| spent.node.clone()),
            };
            tokens.map(line).collect()
        });
        Ok(TokenList {
            items: look.await.map_err(gone)?,
        })
    }

    async fn revoke_token(&self, id: TokenId, who: Caller) -> Result<Applied, ApiError> {
        self.command(Command::RevokeToken { id }, &who).await
    }

    async fn rotate(
        &self,
        module: ModuleName,
        request: Rotate,
        who: Caller,
    ) -> Result<Applied, ApiError> {
        let overlap = request.overlap_millis.unwrap_or(self.shared.overlap);
        let node = request.node;
        let command = Command::Rotate {
            module,
            node,
            overlap,
        };
        self.command(command, &who).await
    }

    async fn set_secret(
        &self,
        secret: SecretName,
        value: SecretValue,
        who: Caller,
    ) -> Result<Applied, ApiError> {
        self.seal_and_set(secret, value, &who).await
    }

    async fn secrets(&self) -> Result<SecretList, ApiError> {
        self.list_secrets().await
    }

    async fn remove_secret(&self, secret: SecretName, who: Caller) -> Result<Applied, ApiError> {
        self.command(Command::RemoveSecret { secret }, &who).await
    }

    async fn reports(&self, node: Option<NodeName>) -> Result<ReportList, ApiError> {
        let facts = self.shared.ledger.facts().await.map_err(failed)?;
        let items = facts.into_iter().filter_map(|fact| match fact {
            Fact::Report(report) if node.as_ref().is_none_or(|node| *node == report.id.node) => {
                Some(ReportLine {
                    node: report.id.node,
                    generation: report.id.generation,
                    seq: report.id.seq,
                    at: report.at,
                    outcome: report.outcome.word().to_owned(),
                })
            }
            _ => None,
        });
        Ok(ReportList {
            items: items.collect(),
        })
    }

    async fn logs(&self, module: ModuleName, query: LogQuery) -> Result<LogRecords, ApiError> {
        self.read_logs(module, query).await
    }

    async fn doctor(&self) -> Result<DoctorReport, ApiError> {
        let mut items = Vec::new();
        let status = self.status().await?;
        if !status.store_up {
            items.push(DoctorFinding {
                warning: true,
                text: "the store takes no commits; reports are held on the bus meanwhile"
                    .to_owned(),
            });
        }
        items.extend(status.nodes.iter().filter_map(of_rival));
        items.extend(status.waiting_for.into_iter().map(|text| DoctorFinding {
            warning: true,
            text: format!("waiting: {text}"),
        }));
        match self.shared.bus.findings().await {
            Ok(findings) => items.extend(findings.into_iter().map(|finding| DoctorFinding {
                warning: finding.warning,
                text: finding.text,
            })),
            Err(error) => items.push(DoctorFinding {
                warning: true,
                text: error.to_string(),
            }),
        }
        Ok(DoctorReport { items })
    }

    async fn verify(&self, request: VerifyRequest, who: Caller) -> Result<Verified, ApiError> {
        self.prove(request, &who).await
    }

    async fn can(&self, request: CanRequest, who: Caller) -> Result<CanAnswer, ApiError> {
        self.may(request, &who).await
    }

    async fn refuse_store(&self, request: RefuseStore) -> Result<(), ApiError> {
        if !self.shared.allow_faults {
            let message = "this controller was not started with --allow-faults";
            return Err(ApiError::new(Code::Denied, message));
        }
        if request.for_millis > LONGEST_FAULT {
            let message = format!("a refusal lasts at most {LONGEST_FAULT} ms");
            return Err(ApiError::new(Code::Invalid, message));
        }
        let ledger = self.shared.ledger.clone();
        let time = Duration::from_millis(request.for_millis);
        let mut faults = self.shared.faults.lock().await;
        faults.spawn(async move { ledger.refuse_for(time).await });
        Ok(())
    }
}

/// What waits for each seat, as far as the bus tells.
fn with_backlogs(status: &mut Status, told: &Result<BTreeMap<SeatName, Backlog>, BusError>) {
    for seat in &mut status.seats {
        let backlog = told.as_ref().ok().and_then(|all| all.get(&seat.seat));
        seat.backlog = backlog.map(|backlog| backlog.messages);
        seat.oldest = backlog.and_then(|backlog| backlog.oldest);
    }
}

/// The bus that was asked for; or the node's own that is to rejoin, while it is there; or the one hosts join on.
fn bus_for<T>(
    asked: Option<BusKind>,
    own: Option<BusKind>,
    default: BusKind,
    there: &BTreeMap<BusKind, T>,
) -> Result<BusKind, ApiError> {
    if there.is_empty() {
        let message = "a mesh on a loopback bus has one node, this machine; hosts join a mesh on NATS or RabbitMQ";
        return Err(ApiError::new(Code::Invalid, message));
    }
    let own = own.filter(|own| there.contains_key(own));
    let bus = asked.or(own).unwrap_or(default);
    if there.contains_key(&bus) {
        Ok(bus)
    } else {
        Err(not_on(bus))
    }
}

fn not_on(bus: BusKind) -> ApiError {
    CommandError::NoBus(bus).into()
}

/// A short public name for a token, from its key: a collision is refused where it would be kept.
fn token_id(key: &UserKey) -> Result<TokenId, ApiError> {
    let public = key.public();
    let id: String = public.as_str().chars().skip(1).take(10).collect();
    TokenId::new(id.to_ascii_lowercase()).map_err(failed)
}

#[cfg(test)]
mod tests {
    use BusKind::{Amqp, Nats};

    use super::*;

    #[test]
    fn a_token_is_for_the_bus_that_is_said_or_the_nodes_own_or_the_one_hosts_join_on() {
        for (there, asked, own, expected) in [
            (&[Nats, Amqp][..], None, None, Ok(Nats)),
            (&[Nats, Amqp], Some(Amqp), None, Ok(Amqp)),
            (&[Nats, Amqp], None, Some(Amqp), Ok(Amqp)),
            (&[Nats, Amqp], Some(Nats), Some(Amqp), Ok(Nats)),
            (&[Nats], None, None, Ok(Nats)),
            (&[Nats], None, Some(Amqp), Ok(Nats)),
            (&[Nats], Some(Amqp), None, Err("not on amqp")),
            (&[], None, None, Err("loopback")),
        ] {
            let there = there.iter().map(|bus| (*bus, ())).collect();
            match (bus_for(asked, own, Nats, &there), expected) {
                (Ok(bus), expected) => assert_eq!(Ok(bus), expected, "{there:?} {asked:?} {own:?}"),
                (Err(error), Err(said)) => {
                    assert_eq!(error.code, Code::Invalid);
                    assert!(error.message.contains(said), "{}", error.message);
                }
                (Err(error), Ok(bus)) => panic!("{bus}: {error}"),
            }
        }
    }
}
