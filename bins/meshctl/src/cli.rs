//! What can be typed.

mod output;

use std::num::NonZeroU8;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use mesh_derive::topology::{BrokerVersion, InvalidVersion};
use mesh_host::Place;
use mesh_model::{
    BusKind, Filter, ModuleName, NodeName, Principal, PublicKey, QueueGroup, Revision, SeatName,
    SecretName, TokenId,
};

pub(crate) use output::Output;

/// Looks at a mesh and changes it.
#[derive(Debug, Parser)]
#[command(name = "meshctl", version, about)]
pub(crate) struct Cli {
    /// The controller's state directory, in which its socket is.
    #[arg(long, global = true, env = "MESH_STATE_DIR", value_name = "DIR")]
    pub(crate) state_dir: Option<PathBuf>,
    /// How answers are written.
    #[arg(
        short,
        long,
        global = true,
        env = "MESH_OUTPUT",
        default_value = "table"
    )]
    pub(crate) output: Output,
    /// How long to wait until something is true.
    #[arg(long, global = true, env = "MESH_TIMEOUT", default_value = "2m", value_parser = humantime::parse_duration)]
    pub(crate) timeout: Duration,
    /// Do not wait until it is true on the nodes.
    #[arg(long, global = true)]
    pub(crate) no_wait: bool,
    /// What to do.
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Show what applying a directory would change, authority included. Exits with 1 if anything would.
    Plan {
        /// The directory with mesh.toml and modules/.
        dir: PathBuf,
    },
    /// Declare what a directory says, and wait until it is true on the nodes.
    Apply(Apply),
    /// Show the mesh.
    Status,
    /// Nodes.
    #[command(subcommand)]
    Node(NodeVerb),
    /// Modules.
    #[command(subcommand)]
    Module(ModuleVerb),
    /// Seats.
    #[command(subcommand)]
    Seat(SeatVerb),
    /// Tokens.
    #[command(subcommand)]
    Token(TokenVerb),
    /// Secrets modules are handed: set here, sealed at once, and shown to nobody.
    #[command(subcommand)]
    Secret(SecretVerb),
    /// Derive authority from a directory, without a controller: as if each module ran on each node it is placed on.
    Derive {
        /// The directory with mesh.toml and modules/.
        dir: PathBuf,
    },
    /// Write what a directory says for a broker you run yourself, without a controller.
    #[command(subcommand)]
    Render(RenderVerb),
    /// Show what a module says on the nodes it runs on.
    Logs(Logs),
    /// Reports as they stand in the store.
    Reports {
        /// Of this node only.
        node: Option<NodeName>,
    },
    /// Try on the live bus what each principal may do, and what it may not. Exits with 1 if the bus does otherwise than
    /// was derived.
    Verify {
        /// Of these only: controller, node/N, module/M, module/M@N, joiner/ID.
        #[arg(value_name = "PRINCIPAL")]
        principals: Vec<Principal>,
    },
    /// Ask whether a principal may do one thing: by what was derived, and by the live bus. Exits with 5 if it may not.
    Can(Can),
    /// Have the controller look at itself and its bus. Exits with 1 if anything wants doing.
    Doctor,
    /// Make the store refuse for a while; the controller has to allow it.
    #[command(hide = true)]
    RefuseStore {
        /// For how long.
        #[arg(value_parser = humantime::parse_duration)]
        time: Duration,
    },
}

/// Declare what a directory says.
#[derive(Debug, Args)]
pub(crate) struct Apply {
    /// The directory with mesh.toml and modules/.
    pub(crate) dir: PathBuf,
    /// Only if nobody changed anything since this revision, which `plan` prints.
    #[arg(long, value_name = "N", value_parser = revision)]
    pub(crate) if_revision: Option<Revision>,
}

/// Show what a module says.
#[derive(Debug, Args)]
pub(crate) struct Logs {
    /// The module.
    pub(crate) module: ModuleName,
    /// Go on with what it says from now on, until interrupted.
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// How many of its last lines on each node.
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub(crate) tail: u32,
    /// On this node only, where it may run no more.
    #[arg(long, value_name = "NODE")]
    pub(crate) node: Option<NodeName>,
}

/// Ask whether a principal may do one thing.
#[derive(Debug, Args)]
pub(crate) struct Can {
    /// Who: controller, node/N, module/M, module/M@N or joiner/ID.
    pub(crate) principal: Principal,
    /// What.
    pub(crate) verb: CanVerb,
    /// The subject; to subscribe it may have wildcards.
    pub(crate) subject: Filter,
    /// To subscribe as a member of this group.
    #[arg(long, value_name = "GROUP")]
    pub(crate) queue: Option<QueueGroup>,
}

/// What can be done with a subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum CanVerb {
    /// Publish on it.
    Publish,
    /// Subscribe to it.
    Subscribe,
}

fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("write KEY=VALUE".to_owned()),
    }
}

/// A time that is at least a second: what is shorter cannot be said to the controller.
fn seconds(text: &str) -> Result<Duration, String> {
    let time = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    if time < Duration::from_secs(1) {
        return Err("at least 1s".to_owned());
    }
    Ok(time)
}

/// A broker that does what a mesh needs of one.
fn broker_version(text: &str) -> Result<BrokerVersion, String> {
    let version: BrokerVersion = text
        .parse()
        .map_err(|error: InvalidVersion| error.to_string())?;
    let oldest = BrokerVersion::OLDEST;
    if version < oldest {
        return Err(format!("a mesh needs RabbitMQ {oldest} or newer"));
    }
    Ok(version)
}

fn revision(text: &str) -> Result<Revision, std::num::ParseIntError> {
    text.parse().map(Revision)
}

/// What can be done with nodes.
#[derive(Debug, Subcommand)]
pub(crate) enum NodeVerb {
    /// List them.
    Ls,
    /// Show one: all that is known of it, each of its modules, and what it is doing now.
    Inspect {
        /// The node.
        node: NodeName,
    },
    /// Place nothing new on a node; what is there stays.
    Cordon {
        /// The node.
        node: NodeName,
    },
    /// Place modules on a node again.
    Uncordon {
        /// The node.
        node: NodeName,
    },
    /// Have every module leave a node, and wait until it says that it runs nothing. Modules with a count go elsewhere.
    Drain {
        /// The node.
        node: NodeName,
    },
    /// End a node's membership: its credential and those of its modules stop working at once.
    Rm {
        /// The node.
        node: NodeName,
        /// Do not ask.
        #[arg(long)]
        yes: bool,
    },
    /// Set a node's labels: all of them, as key=value.
    Label {
        /// The node.
        node: NodeName,
        /// Its labels.
        #[arg(value_name = "KEY=VALUE", value_parser = pair)]
        labels: Vec<(String, String)>,
    },
    /// Make a token that replaces a node's key, for a machine that was set up anew.
    Rejoin {
        /// The node.
        node: NodeName,
        /// How long the token is good for.
        #[arg(long, default_value = "1h", value_parser = seconds)]
        ttl: Duration,
        /// The bus it joins on, in a mesh on two [default: the one the node is on].
        #[arg(long, value_name = "nats|amqp")]
        bus: Option<BusKind>,
    },
    /// Move a node from one bus to the other, once it has proven that it works there. Where it is not heard there in time it
    /// stays. To where it is: withdraw the offer.
    Move(NodeMove),
}

/// Move nodes from one bus to the other.
#[derive(Debug, Args)]
pub(crate) struct NodeMove {
    /// The node.
    #[arg(required_unless_present = "all")]
    pub(crate) node: Option<NodeName>,
    /// Every node that is not there, in waves; the first wave in which one does not arrive is the last.
    #[arg(long, conflicts_with = "node")]
    pub(crate) all: bool,
    /// The bus.
    #[arg(long, value_name = "nats|amqp")]
    pub(crate) to: BusKind,
    /// How many nodes go at once [default: 5].
    #[arg(long, value_name = "N", conflicts_with = "node")]
    pub(crate) wave: Option<NonZeroU8>,
}

/// What can be done with modules.
#[derive(Debug, Subcommand)]
pub(crate) enum ModuleVerb {
    /// List them.
    Ls,
    /// Show one: where it is placed, and what it does on each node.
    Inspect {
        /// The module.
        module: ModuleName,
    },
    /// Replace its credentials now. A module that uses the SDK takes the new one without a restart; another is restarted
    /// once the one before is good no longer.
    Rotate(Rotate),
    /// Print a commented manifest to begin with.
    New {
        /// The module.
        module: ModuleName,
    },
    /// Print the JSON Schema of a manifest, for an editor that checks and completes as one types.
    Schema {
        /// That of mesh.toml instead.
        #[arg(long)]
        mesh: bool,
    },
}

/// Replace a module's credentials.
#[derive(Debug, Args)]
pub(crate) struct Rotate {
    /// The module.
    pub(crate) module: ModuleName,
    /// On this node only.
    #[arg(long)]
    pub(crate) node: Option<NodeName>,
    /// How long the one before stays good [default: the configuration's `credentials.overlap`].
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    pub(crate) overlap: Option<Duration>,
}

/// What can be done with seats.
#[derive(Debug, Subcommand)]
pub(crate) enum SeatVerb {
    /// List them.
    Ls,
    /// Give a seat to a module, over what the files say.
    Assign {
        /// The seat.
        seat: SeatName,
        /// The module.
        module: ModuleName,
    },
    /// Take a seat from its holder and give it to another, and wait until the one may work it no more and the other may.
    /// What the one had in hand goes to the other.
    Handover {
        /// The seat.
        seat: SeatName,
        /// The module it goes to, which lists it under `can_hold`.
        #[arg(long, value_name = "MODULE")]
        to: ModuleName,
    },
    /// Take a seat from whoever holds it; its queue goes on.
    Release {
        /// The seat.
        seat: SeatName,
    },
}

/// What can be done with tokens.
#[derive(Debug, Subcommand)]
pub(crate) enum TokenVerb {
    /// Make one, for a host to become a node with. It is printed this once.
    Create(TokenCreate),
    /// List those that may still be used.
    Ls,
    /// End one: whoever holds it is cut off.
    Revoke {
        /// The token's public id.
        id: TokenId,
    },
}

/// What can be done with secrets.
#[derive(Debug, Subcommand)]
pub(crate) enum SecretVerb {
    /// Set one, from standard input or a file, and wait until the modules that need it have it. A value is never an
    /// argument: every user of a host sees those.
    Set(SecretSet),
    /// List them, without their values.
    Ls,
    /// Forget one no declared module names.
    Rm {
        /// The secret.
        secret: SecretName,
        /// Do not ask.
        #[arg(long)]
        yes: bool,
    },
}

/// Set a secret.
#[derive(Debug, Args)]
pub(crate) struct SecretSet {
    /// What it is called, as a manifest lists it under `secrets`: `SMTP_PASSWORD`.
    pub(crate) secret: SecretName,
    /// Read the value from this file, and not from standard input.
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Take every byte. Otherwise one line end at the end is left out, as an editor or `echo` puts it there.
    #[arg(long)]
    pub(crate) raw: bool,
}

/// Make a token.
#[derive(Debug, Args)]
pub(crate) struct TokenCreate {
    /// How long it is good for.
    #[arg(long, default_value = "1h", value_parser = seconds)]
    pub(crate) ttl: Duration,
    /// The only node it is for.
    #[arg(long)]
    pub(crate) node: Option<NodeName>,
    /// The bus it is good on, in a mesh on two [default: the configuration's `bus.default`].
    #[arg(long, value_name = "nats|amqp")]
    pub(crate) bus: Option<BusKind>,
    /// Labels of the node it makes, as key=value; may be given several times.
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = pair)]
    pub(crate) labels: Vec<(String, String)>,
}

/// For which broker something is written.
#[derive(Debug, Subcommand)]
pub(crate) enum RenderVerb {
    /// The accounts of a nats-server, and their users.
    NatsConf(NatsConf),
    /// What a RabbitMQ imports: everything in the mesh's virtual host, and its users.
    RabbitmqDefinitions(RabbitmqDefinitions),
}

/// Write the accounts of a nats-server.
#[derive(Debug, Args)]
pub(crate) struct NatsConf {
    /// The directory with mesh.toml and modules/.
    pub(crate) dir: PathBuf,
    /// Two files into this directory, accounts.conf and the edge-users.conf it includes, instead of one text.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// A TOML file of public user keys: "node/N", "module/M@N", "joiner/ID" = "U…".
    #[arg(long, value_name = "FILE")]
    pub(crate) keys: Option<PathBuf>,
    /// The controller's public user key in the account with the streams.
    #[arg(long, value_name = "KEY")]
    pub(crate) controller_key: PublicKey,
    /// Its public user key in the system account.
    #[arg(long, value_name = "KEY")]
    pub(crate) system_key: PublicKey,
}

/// Write what a RabbitMQ imports.
#[derive(Debug, Args)]
pub(crate) struct RabbitmqDefinitions {
    /// The directory with mesh.toml and modules/.
    pub(crate) dir: PathBuf,
    /// A TOML file of passwords, its owner's alone (0600): "controller", "node/N" and so on = { password = "…", salt = "8 hex digits" }.
    #[arg(long, value_name = "FILE")]
    pub(crate) secrets: Option<PathBuf>,
    /// The virtual host, which the mesh has to itself.
    #[arg(long, default_value = "mesh")]
    pub(crate) vhost: String,
    /// The broker's version, 3.10.0 or newer; 4.0.3 unless said. An older one refuses what a newer one needs.
    #[arg(long, value_name = "VERSION", value_parser = broker_version)]
    pub(crate) broker_version: Option<BrokerVersion>,
    /// Queues on most brokers of a cluster, instead of on one.
    #[arg(long)]
    pub(crate) quorum: bool,
}

impl Cli {
    /// The controller it speaks to.
    pub(crate) fn client(&self) -> mesh_api::Client {
        let default = || mesh_host::state_dir(Place::Controller);
        let dir = self.state_dir.clone().unwrap_or_else(default);
        mesh_api::Client::new(dir.join("controller.sock"), self.timeout)
    }
}
