//! The service: store, bus, loop and surface, started in this order and stopped in the other.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::Context;
use futures_util::FutureExt;
use mesh_bus::{Both, ControllerBus, ControllerHandle, ControllerLoop, ControllerParts, LoopError};
use mesh_control::{Fact, Kept, Settings};
use mesh_derive::topology::BrokerFacts;
use mesh_derive::{Bounds, Plan, derive, in_parts};
use mesh_model::{BusKind, Records};
use mesh_nats::ManagedServer;
use mesh_wire::decode_mark;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::amqp::{self, AmqpBus};
use crate::buses;
use crate::cli::Cli;
use crate::config::{Bus, Config, Nats};
use crate::keys::{Keys, private_dir};
use crate::loopback;
use crate::managed::{self, NatsBus, Reach};
use crate::mint::SystemMint;
use crate::out;
use crate::served;
use crate::state::{Begun, Layout, OpenStore};
use crate::surface::Surface;

/// Runs until told to stop.
pub(crate) fn run(cli: &Cli) -> anyhow::Result<()> {
    let config = Config::load(cli)?;
    let layout = Layout(cli.state_dir());
    private_dir(&layout.0)?;
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(serve(cli, &config, &layout))
}

/// What a running controller is made of, besides its bus.
#[derive(Debug)]
pub(crate) struct Service<'a> {
    /// What it was asked.
    pub(crate) cli: &'a Cli,
    /// Its configuration.
    pub(crate) config: &'a Config,
    /// Where its files are.
    pub(crate) layout: &'a Layout,
    /// Its keys.
    pub(crate) keys: &'a Keys,
    /// Its store.
    pub(crate) store: &'a OpenStore,
}

async fn serve(cli: &Cli, config: &Config, layout: &Layout) -> anyhow::Result<()> {
    let stop = mesh_host::stop_signal()?.shared();
    let begun = layout.begun()?;
    let dir = layout.store();
    let opening = OpenStore::open(&dir, config.engine, begun);
    let Some(store) = unless(&stop, opening).await? else {
        return Ok(());
    };
    let sealing = if store
        .facts
        .iter()
        .any(|fact| matches!(fact, Fact::Secret(..)))
    {
        Begun::Before
    } else {
        Begun::Now
    };
    let keys = Keys::open(&layout.keys(), begun, sealing)?;
    let (kinds, records) = (config.bus.kinds(), records(&store));
    let now = mesh_host::now();
    buses::hold(&layout.keys(), begun, &kinds, records.as_ref(), now)?;
    if begun == Begun::Now {
        layout.begin()?;
    }
    let service = Service {
        cli,
        config,
        layout,
        keys: &keys,
        store: &store,
    };
    let result = Box::pin(over_the_bus(&service, begun, stop)).await;
    store.ledger.close().await;
    result
}

/// Opens the bus there is, or both, and runs over that.
async fn over_the_bus(
    service: &Service<'_>,
    begun: Begun,
    stop: impl Future<Output = ()> + Clone + Send + 'static,
) -> anyhow::Result<()> {
    let opening_nats = async |nats: &Nats| {
        let (layout, keys) = (service.layout, service.keys);
        let plan = plan(service.config, service.store);
        match nats {
            Nats::Managed(managed) => managed::start(managed, layout, keys, &plan, begun).await,
            Nats::Server(server) => served::open(server, layout, keys, &plan).await,
        }
    };
    match &service.config.bus {
        Bus::Loopback => loopback::run(service, stop).await,
        Bus::Amqp(amqp) => match unless(&stop, amqp::open(amqp)).await? {
            Some(amqp) => over_amqp(service, amqp, stop).await,
            None => Ok(()),
        },
        Bus::Nats(nats) => match unless(&stop, opening_nats(nats)).await? {
            Some(nats) => over_nats(service, nats, stop).await,
            None => Ok(()),
        },
        Bus::Both(both) => {
            // The one nobody starts comes first: when it is not there, nothing was begun.
            let Some(amqp) = unless(&stop, amqp::open(&both.amqp)).await? else {
                return Ok(());
            };
            match unless(&stop, opening_nats(&both.nats)).await? {
                Some(nats) => over_both(service, nats, amqp, stop).await,
                None => Ok(()),
            }
        }
    }
}

/// What comes of the work, unless it is told to stop first.
async fn unless<T>(
    stop: &(impl Future<Output = ()> + Clone),
    work: impl Future<Output = anyhow::Result<T>>,
) -> anyhow::Result<Option<T>> {
    tokio::select! {
        done = work => done.map(Some),
        () = stop.clone() => Ok(None),
    }
}

/// The records as they were left, if there are any.
fn records(store: &OpenStore) -> Option<Records> {
    let kept = Kept::assemble(store.facts.clone(), managed::facts());
    kept.map(|kept| kept.records)
}

/// What the buses are to hold to begin with: what follows from the records as they were left.
fn plan(config: &Config, store: &OpenStore) -> Plan {
    let records = records(store);
    let records = records.unwrap_or_else(|| Records::new(config.mesh.clone(), managed::facts()));
    let mut plan = derive(&records, &Bounds::default());
    in_parts(&mut plan, &records, &config.bus.kinds());
    plan
}

/// What is known of each bus that was reached.
#[derive(Debug, Default)]
pub(crate) struct Reached {
    /// How hosts reach it.
    pub(crate) reaches: BTreeMap<BusKind, Reach>,
    /// What the RabbitMQ is, where there is one.
    pub(crate) broker: Option<BrokerFacts>,
}

async fn over_nats(
    service: &Service<'_>,
    nats: NatsBus,
    stop: impl Future<Output = ()> + Send + 'static,
) -> anyhow::Result<()> {
    let NatsBus { bus, server, reach } = nats;
    let reached = Reached {
        reaches: [(BusKind::Nats, reach)].into(),
        broker: None,
    };
    over(service, Arc::new(bus), reached, server, stop, async || {}).await
}

async fn over_amqp(
    service: &Service<'_>,
    amqp: AmqpBus,
    stop: impl Future<Output = ()> + Send + 'static,
) -> anyhow::Result<()> {
    let bus = Arc::new(amqp.bus);
    let reached = Reached {
        reaches: [(BusKind::Amqp, amqp.reach)].into(),
        broker: Some(bus.broker_facts()),
    };
    let closing = async || bus.close().await;
    over(service, Arc::clone(&bus), reached, None, stop, closing).await
}

async fn over_both(
    service: &Service<'_>,
    nats: NatsBus,
    amqp: AmqpBus,
    stop: impl Future<Output = ()> + Send + 'static,
) -> anyhow::Result<()> {
    let reached = Reached {
        reaches: [(BusKind::Nats, nats.reach), (BusKind::Amqp, amqp.reach)].into(),
        broker: Some(amqp.bus.broker_facts()),
    };
    let both = Arc::new(Both::new(nats.bus, amqp.bus));
    let closing = async || both.amqp().close().await;
    over(
        service,
        Arc::clone(&both),
        reached,
        nats.server,
        stop,
        closing,
    )
    .await
}

/// Runs over a bus, or two as one; ends as a good guest on a broker somebody else runs, and ends the server that is ours.
async fn over<B: ControllerBus>(
    service: &Service<'_>,
    bus: Arc<B>,
    reached: Reached,
    server: Option<ManagedServer>,
    stop: impl Future<Output = ()> + Send + 'static,
    closing: impl AsyncFnOnce(),
) -> anyhow::Result<()> {
    let (running, handle) = match prepare(service, Arc::clone(&bus), &reached).await {
        Ok(prepared) => prepared,
        Err(refusal) => {
            // A start that is refused leaves no server it started; one it found goes on as it was.
            if let Some(server) = server.filter(|server| !server.ready().adopted) {
                let _stopped = server.stop(0).await;
            }
            return Err(refusal);
        }
    };
    let surface = Surface::new(handle.clone(), bus, service, reached);
    let (counting, counted) = (handle, Arc::new(AtomicU32::new(0)));
    let (count, ours) = (Arc::clone(&counted), server.is_some());
    let stop = async move {
        stop.await;
        if !ours {
            return;
        }
        // A server closes its consumers one after another, so their number is how long it may take.
        let look = counting.look(|controller, _| controller.plan().consumers.len());
        if let Ok(consumers) = look.await {
            let consumers = u32::try_from(consumers).unwrap_or(u32::MAX);
            count.store(consumers, Ordering::Relaxed);
        }
    };
    say_how_to_join(service);
    let result = side_by_side(running, surface, service.layout, stop).await;
    closing().await;
    if let Some(server) = server {
        let consumers = counted.load(Ordering::Relaxed);
        tracing::info!("stopping nats-server");
        let _stopped = server.stop(consumers).await;
    }
    result
}

/// A controller nobody has joined yet says how that is done.
fn say_how_to_join(service: &Service<'_>) {
    let joined = |fact: &Fact| matches!(fact, Fact::Node(..));
    if service.cli.quiet || service.store.facts.iter().any(joined) {
        return;
    }
    let meshctl = mesh_host::how_to_run("meshctl");
    let state_dir = match &service.cli.state_dir {
        Some(dir) => format!(" --state-dir {}", dir.display()),
        None => String::new(),
    };
    out::note("no host has joined this mesh yet; in another shell, make a token for one:");
    out::note(&format!("  {meshctl}{state_dir} token create --node one"));
}

/// A loop ready to run over this bus.
pub(crate) async fn prepare<B: ControllerBus>(
    service: &Service<'_>,
    bus: Arc<B>,
    reached: &Reached,
) -> anyhow::Result<(
    ControllerLoop<B, crate::ledger::StoreLedger, SystemMint>,
    ControllerHandle<SystemMint>,
)> {
    let mark = bus.mark().await.context("the mark on the bus")?;
    let mark = mark.map(|bytes| decode_mark(&bytes)).transpose()?;
    let Service { config, store, .. } = service;
    let start = store.against(mark)?;
    let facts = bus.facts();
    let kept = Kept::assemble(store.facts.clone(), facts.clone());
    let mut settings = Settings::new(config.mesh.clone(), facts);
    let own = [&service.keys.controller, &service.keys.system];
    for key in own {
        settings.own_keys.insert(crate::keys::public(key)?);
    }
    settings.window = config.window;
    settings.rotation = config.rotation;
    settings.broker.clone_from(&reached.broker);
    let places = reached.reaches.iter();
    settings.places = places.map(|(kind, reach)| (*kind, reach.place())).collect();
    settings.seed = mesh_host::seed();
    Ok(ControllerLoop::new(ControllerParts {
        bus,
        ledger: Arc::new(store.ledger.clone()),
        kept,
        start,
        settings,
        mint: SystemMint {
            secrets: service.keys.secrets.clone(),
        },
        signer: service.keys.signer(),
        clock: mesh_host::now,
    }))
}

/// Runs the loop and the operator's surface until one ends or both are told to stop.
pub(crate) async fn side_by_side<B: ControllerBus>(
    running: ControllerLoop<B, crate::ledger::StoreLedger, SystemMint>,
    surface: Surface<B>,
    layout: &Layout,
    stop: impl Future<Output = ()> + Send + 'static,
) -> anyhow::Result<()> {
    let (ending, ended) = watch::channel(false);
    let until = |mut ended: watch::Receiver<bool>| async move {
        // Nobody is left to say so when it fails: then it is the end, too.
        let _end = ended.wait_for(|ended| *ended).await;
    };
    let mut parts: JoinSet<anyhow::Result<()>> = JoinSet::new();
    let stopping = until(ended.clone());
    parts.spawn(async move { running.run(stopping).await.map_err(explained) });
    let hearing = surface.hear_logs(until(ended.clone()));
    parts.spawn(async move {
        hearing.await;
        Ok(())
    });
    let (socket, stopping) = (layout.socket(), until(ended));
    parts.spawn(async move { Ok(mesh_api::serve(&socket, surface, stopping).await?) });
    tracing::info!(socket = %layout.socket().display(), "the controller serves");
    let result = tokio::select! {
        () = stop => Ok(()),
        Some(first) = parts.join_next() => first.unwrap_or_else(|error| Err(error.into())),
    };
    ending.send_replace(true);
    let rest = async {
        let mut rest = Ok(());
        while let Some(ended) = parts.join_next().await {
            let ended = ended.unwrap_or_else(|error| Err(error.into()));
            rest = rest.and(ended);
        }
        rest
    };
    // A request somebody has begun and does not end must not hold up the end.
    match tokio::time::timeout(LAST_REQUESTS, rest).await {
        Ok(rest) => result.and(rest),
        Err(_) => result,
    }
}

/// How long requests that are under way may take once it is time to stop.
const LAST_REQUESTS: Duration = Duration::from_secs(3);

fn explained(error: LoopError) -> anyhow::Error {
    anyhow::Error::new(error).context("the controller stops")
}
