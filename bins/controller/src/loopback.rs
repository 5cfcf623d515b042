//! A mesh on one machine without a broker: the bus is in this process, and so is the agent of its one node, `local`.
//! Modules run; a bus to speak over they have not.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use mesh_agent::{
    AgentHost, ContainerSettings, JoinPace, RuntimeKind, StateDir, Surroundings, container_owner,
    join, run_over, verifier,
};
use mesh_auth::keyfile;
use mesh_auth::keys::{BoxKey, UserKey};
use mesh_bus::loopback::Loopback;
use mesh_bus::{ControllerHandle, JoinerBus};
use mesh_control::Command;
use mesh_model::{
    BoxPublicKey, Enrolment, EnrolmentAnswer, NodeName, PublicKey, TokenId, TokenRecord,
};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::managed::facts;
use crate::mint::SystemMint;
use crate::run::{Reached, Service, prepare, side_by_side};
use crate::surface::Surface;

/// The one node.
const NODE: &str = "local";

/// Runs controller and agent until told to stop.
pub(crate) async fn run(
    service: &Service<'_>,
    stop: impl Future<Output = ()> + Send + 'static,
) -> anyhow::Result<()> {
    let loopback = Loopback::new(facts());
    let bus = Arc::new(loopback.controller());
    let (running, handle) = prepare(service, Arc::clone(&bus), &Reached::default()).await?;
    let surface = Surface::new(handle.clone(), bus, service, Reached::default());
    let (stopping, stopped) = watch::channel(());
    let mut agent = JoinSet::new();
    let local = Local::open(&service.layout.local())?;
    let trusted = verifier(service.keys.signing.public());
    let owner = container_owner(&service.keys.signing.public(), &local.node);
    agent.spawn(async move {
        let result = local
            .serve(&loopback, &handle, (trusted, owner), stopped)
            .await;
        if let Err(error) = &result {
            tracing::error!(
                error = format!("{error:#}"),
                "the node of this machine does not run"
            );
        }
        result
    });
    let result = side_by_side(running, surface, service.layout, stop).await;
    drop(stopping);
    while agent.join_next().await.is_some() {}
    result
}

/// The node's own keys, made once.
struct Local {
    node: NodeName,
    key: UserKey,
    box_key: BoxKey,
    dir: std::path::PathBuf,
}

impl Local {
    fn open(dir: &Path) -> anyhow::Result<Self> {
        crate::keys::private_dir(dir)?;
        let path = dir.join("node.xkey");
        let box_key = if path.exists() {
            BoxKey::from_seed(keyfile::read_secret(&path)?.expose().trim())?
        } else {
            let key = BoxKey::generate()?;
            keyfile::write_secret(&path, &key.seed())?;
            key
        };
        let path = dir.join("node.seed");
        let key = if path.exists() {
            UserKey::from_seed(keyfile::read_secret(&path)?.expose().trim())?
        } else {
            let key = UserKey::generate()?;
            keyfile::write_secret(&path, &key.seed())?;
            key
        };
        Ok(Self {
            node: NodeName::new(NODE)?,
            key,
            box_key,
            dir: dir.to_owned(),
        })
    }

    async fn serve(
        self,
        loopback: &Loopback,
        handle: &ControllerHandle<SystemMint>,
        (trusted, owner): (mesh_bus::Verifier, String),
        mut stopped: watch::Receiver<()>,
    ) -> anyhow::Result<()> {
        let key = PublicKey::new(self.key.public().as_str())?;
        let node = self.node.clone();
        let known = handle.look(move |controller, _| {
            controller
                .records()
                .nodes
                .get(&node)
                .map(|record| record.key.clone())
        });
        match known.await? {
            Some(known) if known == key => {}
            Some(_) => bail!(
                "a node called {NODE} is enrolled with another key; remove it with `meshctl node rm {NODE} --yes` and start again"
            ),
            None => self.enrol(loopback, handle, &trusted, key.clone()).await?,
        }
        let state = StateDir::take(&self.dir).await?;
        let host = AgentHost {
            node: self.node.clone(),
            verifier: trusted,
            heartbeat: Duration::from_secs(5),
            runtime: RuntimeKind::Process,
            containers: ContainerSettings::default(),
            owner,
            surroundings: Surroundings {
                node: self.node.clone(),
                urls: Vec::new(),
                ca: None,
                bus: facts(),
                box_key: self.box_key,
                handed: state.handed(),
            },
            state,
        };
        let stop = async move {
            // Nothing is ever sent: the sender is dropped when it is time to stop.
            let _dropped = stopped.changed().await;
        };
        run_over(loopback.node(self.node, key), host, stop).await?;
        Ok(())
    }

    /// The same way every host comes in: with a token.
    async fn enrol(
        &self,
        loopback: &Loopback,
        handle: &ControllerHandle<SystemMint>,
        trusted: &mesh_bus::Verifier,
        key: PublicKey,
    ) -> anyhow::Result<()> {
        let joiner = UserKey::generate()?;
        let public = PublicKey::new(joiner.public().as_str())?;
        let id: String = public.as_str().chars().skip(1).take(10).collect();
        let id = TokenId::new(id.to_ascii_lowercase())?;
        let token = TokenRecord {
            bus: mesh_model::BusKind::Nats,
            key: public,
            expires: mesh_host::now().plus(60_000),
            node: Some(self.node.clone()),
            labels: std::collections::BTreeMap::new(),
            rejoin: false,
            spent: None,
        };
        let command = Command::CreateToken {
            id: id.clone(),
            token,
        };
        handle.command(command, "controller".to_owned()).await??;
        let joiner = loopback.joiner(id)?;
        let (reply, box_key) = (joiner.answer_address(), self.box_key.public());
        let box_key = BoxPublicKey::new(box_key.as_str())?;
        let enrolment = || Enrolment {
            node: Some(self.node.clone()),
            key: key.clone(),
            box_key: box_key.clone(),
            reply: reply.clone(),
            clock: mesh_host::now(),
        };
        let pace = JoinPace {
            again: Duration::from_secs(2),
            within: Duration::from_secs(30),
        };
        match join(&joiner, enrolment, trusted, pace)
            .await
            .context("enrolment of this machine")?
        {
            EnrolmentAnswer::Accepted { .. } => Ok(()),
            EnrolmentAnswer::Refused(refusal) => Err(refusal.into()),
        }
    }
}
