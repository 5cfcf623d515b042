//! The controller's configuration: as typed, then as meant.

mod amqp;

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use amqp::TypedAmqp;
use anyhow::{Context, anyhow, bail};
use mesh_control::Rotation;
use mesh_derive::topology::LONGEST_HELD;
use mesh_host::Place;
use mesh_model::BusKind;
use mesh_model::MeshName;
use mesh_store::EngineKind;
use mesh_window::Limits;
use serde::Deserialize;

use crate::cli::{Cli, ConfigVerb};
use crate::out;

pub(crate) use amqp::{Amqp, Provisioner};

/// The configuration as it is meant.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    /// What a new mesh is called, until something is applied.
    pub(crate) mesh: MeshName,
    /// Which engine a new store has.
    pub(crate) engine: EngineKind,
    /// How long a refused message is held.
    pub(crate) window: Limits,
    /// When modules' credentials are replaced.
    pub(crate) rotation: Rotation,
    /// The bus.
    pub(crate) bus: Bus,
    /// The file it comes from, if there is one.
    pub(crate) file: Option<PathBuf>,
}

/// Which bus, or which two.
#[derive(Debug, Clone)]
pub(crate) enum Bus {
    /// A NATS server.
    Nats(Nats),
    /// A RabbitMQ somebody runs.
    Amqp(Amqp),
    /// One of each.
    Both(Box<Both>),
    /// No broker: one machine, one node, in this process.
    Loopback,
}

/// A NATS server.
#[derive(Debug, Clone)]
pub(crate) enum Nats {
    /// One this controller brings along.
    Managed(Managed),
    /// One somebody else runs.
    Server(Server),
}

/// A NATS server and a RabbitMQ.
#[derive(Debug, Clone)]
pub(crate) struct Both {
    /// The one.
    pub(crate) nats: Nats,
    /// The other.
    pub(crate) amqp: Amqp,
    /// On which hosts join unless their token says otherwise.
    pub(crate) default: BusKind,
}

impl Bus {
    /// What each there is knows a key by.
    pub(crate) fn kinds(&self) -> BTreeSet<BusKind> {
        match self {
            Self::Both(_) => BusKind::ALL.into(),
            Self::Nats(_) | Self::Amqp(_) | Self::Loopback => [self.default_kind()].into(),
        }
    }

    /// On which hosts join unless their token says otherwise.
    pub(crate) fn default_kind(&self) -> BusKind {
        match self {
            Self::Both(both) => both.default,
            Self::Amqp(_) => BusKind::Amqp,
            Self::Nats(_) | Self::Loopback => BusKind::Nats,
        }
    }
}

/// A NATS server this controller brings along.
#[derive(Debug, Clone)]
pub(crate) struct Managed {
    /// The port it listens on; 0 takes a free one and keeps it.
    pub(crate) port: u16,
    /// The address it listens on.
    pub(crate) listen: std::net::IpAddr,
    /// Names and addresses hosts reach it by, besides loopback.
    pub(crate) names: Vec<String>,
    /// The folder in which `nats-server` is looked for first.
    pub(crate) server_dir: Option<PathBuf>,
    /// When it has what it confirms on disk; nothing for before it confirms.
    pub(crate) sync: Option<Duration>,
}

/// A NATS server somebody else runs.
#[derive(Debug, Clone)]
pub(crate) struct Server {
    /// Where it is.
    pub(crate) urls: Vec<String>,
    /// Who vouches for its certificate.
    pub(crate) ca: PathBuf,
    /// The file of users it includes.
    pub(crate) users_file: PathBuf,
    /// Copies of each stream.
    pub(crate) replicas: u8,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Typed {
    mesh: TypedMesh,
    store: TypedStore,
    window: TypedWindow,
    credentials: TypedCredentials,
    bus: TypedBus,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct TypedCredentials {
    rotate_after: Option<String>,
    overlap: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct TypedMesh {
    name: Option<MeshName>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct TypedStore {
    engine: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct TypedWindow {
    bound: Option<String>,
    first: Option<String>,
    cap: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct TypedBus {
    default: Option<String>,
    nats: Option<TypedNats>,
    amqp: Option<TypedAmqp>,
    loopback: Option<TypedLoopback>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct TypedLoopback {}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct TypedNats {
    kind: Option<String>,
    port: Option<u16>,
    listen: Option<std::net::IpAddr>,
    names: Vec<String>,
    server_dir: Option<PathBuf>,
    sync: Option<String>,
    urls: Vec<String>,
    ca: Option<PathBuf>,
    users_file: Option<PathBuf>,
    replicas: Option<u8>,
}

impl Config {
    /// Reads the file that is named, or the system's if there is one.
    pub(crate) fn load(cli: &Cli) -> anyhow::Result<Self> {
        let file = match &cli.config {
            Some(file) => Some(file.clone()),
            None => Some(mesh_host::config_file(Place::Controller)).filter(|file| file.exists()),
        };
        let typed = match &file {
            Some(file) => read(file)?,
            None => Typed::default(),
        };
        Self::meant(typed, file)
    }

    fn meant(typed: Typed, file: Option<PathBuf>) -> anyhow::Result<Self> {
        let defaults = Limits::default();
        let window = Limits {
            bound: duration(
                "window.bound",
                typed.window.bound.as_deref(),
                defaults.bound,
            )?,
            first: duration(
                "window.first",
                typed.window.first.as_deref(),
                defaults.first,
            )?,
            cap: duration("window.cap", typed.window.cap.as_deref(), defaults.cap)?,
        };
        let engine = match typed.store.engine {
            Some(engine) => engine.parse().context("store.engine")?,
            None => EngineKind::default(),
        };
        let mesh = match typed.mesh.name {
            Some(name) => name,
            None => MeshName::new("home")?,
        };
        let bus = bus(typed.bus, file.as_deref())?;
        if bus.kinds().contains(&BusKind::Amqp) && window.bound > LONGEST_HELD {
            bail!(
                "window.bound = {}: over AMQP a report is held for {} at most, since a broker closes the channel of a reader that holds one for half an hour",
                human(window.bound),
                human(LONGEST_HELD)
            );
        }
        Ok(Self {
            mesh,
            engine,
            window,
            rotation: rotation(&typed.credentials)?,
            bus,
            file,
        })
    }
}

const LOOPBACK: std::net::IpAddr = std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

fn read(file: &Path) -> anyhow::Result<Typed> {
    let text = std::fs::read_to_string(file)
        .with_context(|| format!("configuration {} cannot be read", file.display()))?;
    Ok(mesh_files::read(&file.display().to_string(), &text)?)
}

fn bus(typed: TypedBus, file: Option<&Path>) -> anyhow::Result<Bus> {
    let chosen = typed.default.as_deref();
    match (chosen, typed.nats, typed.amqp, typed.loopback) {
        (Some("loopback"), ..) | (None, None, None, Some(_)) => Ok(Bus::Loopback),
        (None | Some("nats" | "amqp"), Some(nats), Some(amqp), _) => {
            Ok(Bus::Both(Box::new(Both {
                nats: nats_bus(nats)?,
                amqp: amqp.meant(file)?,
                default: match chosen {
                    Some("amqp") => BusKind::Amqp,
                    _ => BusKind::Nats,
                },
            })))
        }
        (Some("amqp") | None, None, Some(amqp), _) => amqp.meant(file).map(Bus::Amqp),
        (Some("amqp"), ..) => {
            bail!("bus.default = \"amqp\" needs [bus.amqp] with url and management_url")
        }
        (Some("nats"), None, Some(_), _) => bail!(
            "bus.default = \"nats\", and [bus.amqp] is there alone; write [bus.nats] for a mesh on both, or leave one of the two out"
        ),
        (Some("nats") | None, nats, ..) => nats_bus(nats.unwrap_or_default()).map(Bus::Nats),
        // Not shown: it may be an address with a password in it.
        (Some(_), ..) => Err(anyhow!(
            "bus.default: this release has \"nats\", \"amqp\" and \"loopback\""
        )),
    }
}

fn nats_bus(typed: TypedNats) -> anyhow::Result<Nats> {
    match typed.kind.as_deref() {
        None | Some("managed") => {
            if !typed.urls.is_empty() || typed.ca.is_some() || typed.users_file.is_some() {
                bail!("bus.nats: urls, ca and users_file belong to kind = \"server\"");
            }
            let listen = typed.listen.unwrap_or(LOOPBACK);
            if listen.is_unspecified() && typed.names.is_empty() {
                bail!(
                    "bus.nats: listen = \"{listen}\" needs names = [\"HOST\"]: what hosts call this machine"
                );
            }
            let sync = match typed.sync.as_deref() {
                Some("always") => None,
                Some(text) => Some(duration("bus.nats.sync", Some(text), Duration::ZERO)?),
                None => Some(Duration::from_mins(2)),
            };
            Ok(Nats::Managed(Managed {
                port: typed.port.unwrap_or(0),
                listen,
                names: typed.names,
                server_dir: typed.server_dir,
                sync,
            }))
        }
        Some("server") => {
            if typed.urls.is_empty() {
                bail!("bus.nats: kind = \"server\" needs urls = [\"tls://host:4222\"]");
            }
            Ok(Nats::Server(Server {
                urls: typed.urls,
                ca: typed.ca.context("bus.nats: kind = \"server\" needs ca = \"FILE\"")?,
                users_file: typed.users_file.context(
                    "bus.nats: kind = \"server\" needs users_file = \"FILE\", which the server includes",
                )?,
                replicas: typed.replicas.unwrap_or(1),
            }))
        }
        Some(_) => bail!("bus.nats.kind: write \"managed\" or \"server\""),
    }
}

fn rotation(typed: &TypedCredentials) -> anyhow::Result<Rotation> {
    let defaults = Rotation::default();
    let millis = |key, text: &str, least: Duration| {
        let time = duration(key, Some(text), least)?;
        if time < least {
            bail!("{key} = {text:?}: at least {}", human(least));
        }
        anyhow::Ok(u64::try_from(time.as_millis())?)
    };
    Ok(Rotation {
        after: match typed.rotate_after.as_deref() {
            Some("never") => None,
            Some(text) => Some(millis(
                "credentials.rotate_after",
                text,
                Duration::from_hours(1),
            )?),
            None => defaults.after,
        },
        overlap: match typed.overlap.as_deref() {
            Some(text) => millis("credentials.overlap", text, Duration::from_mins(1))?,
            None => defaults.overlap,
        },
    })
}

fn duration(key: &str, text: Option<&str>, default: Duration) -> anyhow::Result<Duration> {
    let Some(text) = text else {
        return Ok(default);
    };
    humantime::parse_duration(text)
        .with_context(|| format!("{key} = {text:?} is no duration: write for instance \"10m\""))
}

/// Prints the configuration, a file to begin with, or what is wrong.
pub(crate) fn show(cli: &Cli, verb: ConfigVerb) -> anyhow::Result<()> {
    match verb {
        ConfigVerb::Init => out::data(SKELETON),
        ConfigVerb::Validate => {
            let config = Config::load(cli)?;
            let file = config.file.map(|file| file.display().to_string());
            let file = file.unwrap_or_else(|| "no file, the defaults".to_owned());
            out::data(&format!("ok: {file}\n"));
            if let Bus::Both(both) = &config.bus {
                let default = both.default;
                out::data(&format!(
                    "a mesh on two buses, nats and amqp; hosts join on {default} unless their token says otherwise\n"
                ));
            }
        }
        ConfigVerb::Show { origin } => out::data(&Config::load(cli)?.render(cli, origin)),
    }
    Ok(())
}

impl Config {
    fn render(&self, cli: &Cli, origin: bool) -> String {
        let file = self.file.as_deref().map(Path::display);
        let from_file = file.map_or_else(
            || "default".to_owned(),
            |file| format!("{file}, or default"),
        );
        let from_flag = if cli.state_dir.is_some() {
            "flag or MESH_STATE_DIR"
        } else {
            "default"
        };
        let window = self.window;
        let mut rows = vec![
            (
                "state-dir",
                cli.state_dir().display().to_string(),
                from_flag,
            ),
            ("mesh.name", self.mesh.to_string(), from_file.as_str()),
            ("store.engine", self.engine.to_string(), &from_file),
            ("window.bound", human(window.bound), &from_file),
            ("window.first", human(window.first), &from_file),
            ("window.cap", human(window.cap), &from_file),
            (
                "credentials.rotate_after",
                self.rotation
                    .after
                    .map_or_else(|| "never".to_owned(), of_millis),
                &from_file,
            ),
            (
                "credentials.overlap",
                of_millis(self.rotation.overlap),
                &from_file,
            ),
        ];
        rows.extend(
            self.bus
                .shown()
                .map(|(key, shown)| (key, shown, from_file.as_str())),
        );
        let line = |(key, value, from): &(&str, String, &str)| {
            if origin {
                format!("{key} = {value:?}  # {from}\n")
            } else {
                format!("{key} = {value:?}\n")
            }
        };
        rows.iter().map(line).collect()
    }
}

impl Bus {
    /// A line each: one bus is called just that, and of two it is said on which hosts join.
    fn shown(&self) -> impl Iterator<Item = (&'static str, String)> {
        match self {
            Self::Loopback => vec![("bus", "loopback".to_owned())],
            Self::Amqp(amqp) => vec![("bus", amqp.to_string())],
            Self::Nats(nats) => vec![("bus", nats.to_string())],
            Self::Both(both) => vec![
                ("bus.default", both.default.to_string()),
                ("bus.nats", both.nats.to_string()),
                ("bus.amqp", both.amqp.to_string()),
            ],
        }
        .into_iter()
    }
}

impl fmt::Display for Nats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Server(server) => write!(f, "nats server {}", server.urls.join(",")),
            Self::Managed(managed) => write!(f, "nats managed {}:{}", managed.listen, managed.port),
        }
    }
}

fn of_millis(millis: u64) -> String {
    human(Duration::from_millis(millis))
}

fn human(duration: Duration) -> String {
    humantime::format_duration(duration).to_string()
}

const SKELETON: &str = r#"version = 1

[mesh]
# name = "home"            # what a new mesh is called, until something is applied

[store]
# engine = "redb"          # or "sled"; fixed for the life of a store

[window]
# bound = "10m"            # how long a report the store refuses is held before it is let go

[credentials]
# rotate_after = "30d"     # when a module's credential is replaced, without a restart; or "never"
# overlap = "1d"           # how long the one before stays good for a module that does not take the new one by itself

[bus]
# default = "nats"         # with two buses, the one hosts join on unless their token says otherwise; or "amqp"

[bus.nats]
# kind = "managed"         # the controller brings its own server; "server" uses one somebody else runs
# listen = "127.0.0.1"     # "0.0.0.0" for hosts elsewhere; name this machine below
# port = 0                 # 0 takes a free one and keeps it
# names = ["bus.example"]  # what hosts elsewhere call this machine
# sync = "2m"              # when the server has what it confirms on disk; "always" is safest and slow

# [bus.amqp]               # a RabbitMQ somebody runs: beside [bus.nats] for a mesh on both, or in its place
# url = "amqps://bus.example:5671/mesh"
# management_url = "https://bus.example:15671"
# ca = "ca.pem"            # who vouches for the broker's certificate
# provisioner_file = "provisioner"    # 0600, one line USER:PASSWORD of an administrator of the broker
"#;

#[cfg(test)]
mod tests;
