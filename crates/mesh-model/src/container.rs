//! What a container is given, and how a module's health is asked for.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::text::texts;
use crate::{Sealed, SecretName};

/// A text that names no image.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is no image: {why}; write registry/name:tag, or registry/name@sha256:… to pin it"
)]
pub struct InvalidImage {
    text: String,
    why: &'static str,
}

texts! {
    /// The reference of an image: `registry.example:5000/name:tag`, or with `@sha256:…` in place of the tag or after it.
    ///
    /// Kept as it was written: what it stands for where no registry is named is the engine's business.
    Image or InvalidImage;
}

/// Bytes an image's reference may have.
const IMAGE_LIMIT: usize = 512;

impl Image {
    /// Takes a text as an image's reference.
    pub fn new(text: impl Into<String>) -> Result<Self, InvalidImage> {
        let text = text.into();
        match wrong_image(&text) {
            None => Ok(Self(text.into())),
            Some(why) => Err(InvalidImage { text, why }),
        }
    }

    /// The digest it is pinned to, `sha256:…`; nothing when only a tag says which one is meant.
    pub fn digest(&self) -> Option<&str> {
        self.as_str().split_once('@').map(|(_, digest)| digest)
    }

    /// The name without tag and digest, as a registry and an engine know it.
    pub fn repository(&self) -> &str {
        let text = self.as_str();
        let named = text.split_once('@').map_or(text, |(named, _)| named);
        match named.rsplit_once(':') {
            // A colon before a slash is the registry's port.
            Some((name, tag)) if !tag.contains('/') => name,
            _ => named,
        }
    }

    /// The tag; nothing when there is none.
    pub fn tag(&self) -> Option<&str> {
        let text = self.as_str();
        let named = text.split_once('@').map_or(text, |(named, _)| named);
        named
            .rsplit_once(':')
            .map(|(_, tag)| tag)
            .filter(|tag| !tag.contains('/'))
    }
}

/// What is wrong with the reference of an image, if anything is. After the grammar of the distribution specification.
fn wrong_image(text: &str) -> Option<&'static str> {
    if text.len() > IMAGE_LIMIT {
        return Some("it has more than 512 bytes");
    }
    let (named, digest) = match text.split_once('@') {
        Some((named, digest)) => (named, Some(digest)),
        None => (text, None),
    };
    if let Some(digest) = digest {
        let hex = digest.strip_prefix("sha256:");
        let good = |hex: &str| {
            hex.len() == 64 && hex.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
        };
        if !hex.is_some_and(good) {
            return Some("a digest is sha256: and 64 digits of 0-9 and a-f");
        }
    }
    let (path, tag) = match named.rsplit_once(':') {
        Some((path, tag)) if !tag.contains('/') => (path, Some(tag)),
        _ => (named, None),
    };
    if let Some(tag) = tag {
        let first = tag.bytes().next();
        let letter = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
        let any = |b: u8| letter(b) || b == b'.' || b == b'-';
        if !first.is_some_and(letter) || !tag.bytes().all(any) || tag.len() > 128 {
            return Some(
                "a tag has 1 to 128 letters, digits, '_', '.' and '-', and begins with none of the last two",
            );
        }
    }
    let mut parts = path.split('/').peekable();
    let host = parts.peek().is_some_and(|first| {
        path.contains('/') && (first.contains(['.', ':']) || *first == "localhost")
    });
    if host && let Some(host) = parts.next() {
        let any = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b':');
        if !host.bytes().all(any) {
            return Some("its registry is a host name, with a port where it needs one");
        }
    }
    let good = |part: &str| {
        let any = |b: u8| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'_' | b'-');
        let edge = |b: Option<u8>| b.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
        part.bytes().all(any) && edge(part.bytes().next()) && edge(part.bytes().last())
    };
    let mut parts = parts.peekable();
    if parts.peek().is_none() || !parts.all(good) {
        return Some(
            "its name has lower-case letters, digits, '.', '_' and '-', in parts parted by '/'",
        );
    }
    None
}

/// A module as a container: the image, and what its engine gives it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Container {
    /// Which image.
    pub image: Image,
    /// Arguments in place of the image's own command; its entry point stays.
    pub args: Vec<String>,
    /// Ports of the host that lead to ports of its own.
    pub ports: BTreeSet<Port>,
    /// What of the host it sees, and where.
    pub volumes: BTreeSet<Volume>,
    /// Which network it is in.
    pub network: Network,
    /// What it may use at most.
    pub resources: Resources,
    /// The secret with which its registry is asked, `user:password`; it is not handed to the module.
    pub pull_secret: Option<SecretName>,
}

impl Container {
    /// Of an image, with nothing else said.
    pub const fn new(image: Image) -> Self {
        Self {
            image,
            args: Vec::new(),
            ports: BTreeSet::new(),
            volumes: BTreeSet::new(),
            network: Network::Bridge,
            resources: Resources {
                memory: None,
                millicpus: None,
            },
            pull_secret: None,
        }
    }

    /// Whether two copies of it can run at once on one host: a second must not be refused what the first has, nor write
    /// where the first writes.
    pub fn fits_twice(&self) -> bool {
        self.ports.is_empty()
            && self.network == Network::Bridge
            && self.volumes.iter().all(|volume| volume.read_only)
    }
}

/// A port of the host that leads to one of the container's: `8025:25`, `127.0.0.1:8025:25`, `5353:53/udp`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Port {
    /// Only on this address of the host; else on all of them.
    pub address: Option<std::net::IpAddr>,
    /// The host's.
    pub host: u16,
    /// The container's.
    pub container: u16,
    /// Which protocol.
    pub protocol: Protocol,
}

/// A protocol with ports.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    /// TCP.
    #[default]
    Tcp,
    /// UDP.
    Udp,
}

impl Protocol {
    /// As files and engines write it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        }
    }
}

/// A text that is no port of a container.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no port: write \"HOST:CONTAINER\", each from 1 to 65535, with \"ADDRESS:\" before it for one address of \
     the host alone ([…] around one of IPv6), and \"/udp\" behind it where it is not TCP"
)]
pub struct InvalidPort(String);

impl FromStr for Port {
    type Err = InvalidPort;
    fn from_str(text: &str) -> Result<Self, InvalidPort> {
        let read = || {
            let (rest, protocol) = match text.split_once('/') {
                None => (text, Protocol::Tcp),
                Some((rest, "tcp")) => (rest, Protocol::Tcp),
                Some((rest, "udp")) => (rest, Protocol::Udp),
                Some(_) => return None,
            };
            let (rest, container) = rest.rsplit_once(':')?;
            let (address, host) = match rest.rsplit_once(':') {
                None => (None, rest),
                Some((address, host)) => {
                    let bare = address.strip_prefix('[').and_then(|a| a.strip_suffix(']'));
                    let address: std::net::IpAddr = match bare {
                        Some(six) => std::net::IpAddr::V6(six.parse().ok()?),
                        None => std::net::IpAddr::V4(address.parse().ok()?),
                    };
                    (Some(address), host)
                }
            };
            Some(Self {
                address,
                host: port_number(host)?,
                container: port_number(container)?,
                protocol,
            })
        };
        read().ok_or_else(|| InvalidPort(text.to_owned()))
    }
}

/// The number of a port, in digits alone.
pub(crate) fn port_number(text: &str) -> Option<u16> {
    let digits = text.len() <= 5 && text.bytes().all(|b| b.is_ascii_digit());
    let number = digits.then(|| text.parse().ok())?;
    number.filter(|port| *port > 0)
}

impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.address {
            Some(std::net::IpAddr::V6(six)) => write!(f, "[{six}]:")?,
            Some(four) => write!(f, "{four}:")?,
            None => {}
        }
        write!(f, "{}:{}", self.host, self.container)?;
        match self.protocol {
            Protocol::Tcp => Ok(()),
            Protocol::Udp => f.write_str("/udp"),
        }
    }
}

/// Something of the host a container sees: `data:/var/lib/data`, `/srv/files:/files:ro`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Volume {
    /// A path of the host, or the name of a volume the engine keeps.
    pub source: String,
    /// Where the container sees it.
    pub target: String,
    /// It may not write there.
    pub read_only: bool,
}

impl Volume {
    /// Whether it is a path of the host, and not a volume by name.
    pub fn is_path(&self) -> bool {
        self.source.starts_with('/')
    }
}

/// A text that is no volume.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no volume: write \"NAME:/PATH\" for one the engine keeps, or \"/HOST/PATH:/PATH\", with \":ro\" behind it \
     where it is only read; a name has letters, digits, '_', '.' and '-', and a path no \"..\""
)]
pub struct InvalidVolume(String);

impl FromStr for Volume {
    type Err = InvalidVolume;
    fn from_str(text: &str) -> Result<Self, InvalidVolume> {
        let read = || {
            let (rest, read_only) = match text.strip_suffix(":ro") {
                Some(rest) => (rest, true),
                None => (text.strip_suffix(":rw").unwrap_or(text), false),
            };
            let (source, target) = rest.split_once(':')?;
            let path = |text: &str| {
                text.starts_with('/')
                    && text.len() > 1
                    && !text.contains([':', '\0'])
                    && text.split('/').all(|part| part != "..")
            };
            let name = |text: &str| {
                let any = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-');
                let first = text.bytes().next();
                first.is_some_and(|b| b.is_ascii_alphanumeric())
                    && text.len() <= 128
                    && text.bytes().all(any)
            };
            // The mesh's own place in a container.
            let ours = target == "/run/mesh" || target.starts_with("/run/mesh/");
            let good = path(target) && !ours && (path(source) || name(source));
            good.then(|| Self {
                source: source.to_owned(),
                target: target.to_owned(),
                read_only,
            })
        };
        read().ok_or_else(|| InvalidVolume(text.to_owned()))
    }
}

impl fmt::Display for Volume {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let suffix = if self.read_only { ":ro" } else { "" };
        write!(f, "{}:{}{suffix}", self.source, self.target)
    }
}

/// Which network a container is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Network {
    /// One of its own, from which the host is reached as `host.docker.internal`.
    #[default]
    Bridge,
    /// The host's.
    Host,
}

/// What a container may use at most; nothing said is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Resources {
    /// Bytes of memory.
    pub memory: Option<u64>,
    /// Thousandths of a processor.
    pub millicpus: Option<u32>,
}

/// How it is known that a module does its work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Health {
    /// What is asked.
    pub probe: Probe,
    /// Milliseconds between two askings; each is given as long to answer.
    pub every: u64,
    /// Milliseconds after a start within which it has to be healthy for the first time.
    pub within: u64,
}

/// One question whose answer is health.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Probe {
    /// This URL of plain HTTP answers with a status of 200 to 399, asked from the host.
    Http(String),
    /// Something listens at `HOST:PORT`, asked from the host.
    Tcp(String),
    /// This command ends with success, run inside the container, or beside the process.
    Exec(Vec<String>),
}

impl Probe {
    /// Bytes of what is said.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Http(text) | Self::Tcp(text) => text.len(),
            Self::Exec(argv) => argv.iter().map(String::len).sum(),
        }
    }

    /// Words of its command, where it is one.
    pub(crate) fn words(&self) -> usize {
        match self {
            Self::Http(_) | Self::Tcp(_) => 0,
            Self::Exec(argv) => argv.len(),
        }
    }
}

/// A secret's value on its way to one node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandedSecret {
    /// Which value it is: it grows with each.
    pub version: u64,
    /// The value, sealed to the node.
    pub sealed: Sealed,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_what_a_registry_and_an_engine_can_be_asked_for() {
        let digest = format!("sha256:{}", "a1".repeat(32));
        let pinned = format!("registry.example:5000/team/mailer:1.4.0@{digest}");
        for (text, repository, tag, pin) in [
            ("mailer", "mailer", None, None),
            ("mailer:1.4.0", "mailer", Some("1.4.0"), None),
            ("team/mailer:_a.b-c", "team/mailer", Some("_a.b-c"), None),
            (
                "registry.example:5000/mailer",
                "registry.example:5000/mailer",
                None,
                None,
            ),
            (
                "Registry.Example/mailer:x",
                "Registry.Example/mailer",
                Some("x"),
                None,
            ),
            ("localhost/a__b", "localhost/a__b", None, None),
            (
                &*pinned,
                "registry.example:5000/team/mailer",
                Some("1.4.0"),
                Some(&*digest),
            ),
        ] {
            let image = Image::new(text).unwrap();
            assert_eq!(image.as_str(), text);
            assert_eq!(
                (image.repository(), image.tag(), image.digest()),
                (repository, tag, pin)
            );
        }
    }

    #[test]
    fn what_is_no_image_is_refused_with_the_rule() {
        let long = "a".repeat(513);
        for (text, why) in [
            ("", "lower-case"),
            ("Mailer", "lower-case"),
            ("a//b", "lower-case"),
            ("a b", "lower-case"),
            ("-a", "lower-case"),
            ("a/", "lower-case"),
            ("registry.example:5000/", "lower-case"),
            ("a\nb", "lower-case"),
            ("re$istry.example/a", "registry"),
            ("a:", "tag"),
            ("a:.x", "tag"),
            ("a:x y", "tag"),
            ("a@sha256:abc", "digest"),
            ("a@md5:00", "digest"),
            (&long, "512"),
        ] {
            let error = Image::new(text).unwrap_err().to_string();
            assert!(error.contains(why), "{text:?}: {error}");
        }
    }

    #[test]
    fn a_port_is_written_as_it_was_read() {
        for (text, host, container) in [
            ("8025:25", 8025, 25),
            ("127.0.0.1:8025:25", 8025, 25),
            ("[::1]:8025:25", 8025, 25),
            ("5353:53/udp", 5353, 53),
        ] {
            let port: Port = text.parse().unwrap();
            assert_eq!((port.host, port.container), (host, container));
            assert_eq!(port.to_string(), text);
        }
        assert_eq!("1:2/tcp".parse::<Port>().unwrap().to_string(), "1:2");
        for text in [
            "",
            "+80:25",
            "000080:25",
            "80",
            "0:80",
            "80:0",
            "80:65536",
            "a:80",
            "::1:80:80",
            "1.2.3:80:80",
            "80:80/sctp",
            "80:80/",
            "-1:80",
        ] {
            assert!(text.parse::<Port>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_volume_is_a_name_or_a_path_and_never_the_meshs_own_place() {
        for (text, path, read_only) in [
            ("mail-data:/var/lib/mail", false, false),
            ("/srv/files:/files:ro", true, true),
        ] {
            let volume: Volume = text.parse().unwrap();
            assert_eq!((volume.is_path(), volume.read_only), (path, read_only));
            assert_eq!(volume.to_string(), text);
        }
        assert_eq!("a:/b:rw".parse::<Volume>().unwrap().to_string(), "a:/b");
        for text in [
            "",
            "a",
            "a:",
            "a:b",
            ":/b",
            "a:/",
            "/srv/../etc:/etc",
            "a:/b/../c",
            "./a:/b",
            "a:/run/mesh",
            "a:/run/mesh/x",
            "a:/b:rx",
            "-a:/b",
        ] {
            assert!(text.parse::<Volume>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn two_copies_fit_where_nothing_of_the_host_is_taken() {
        let plain = Container::new(Image::new("a").unwrap());
        assert!(plain.fits_twice());
        let port = "80:80".parse().unwrap();
        let ported = Container {
            ports: [port].into(),
            ..plain.clone()
        };
        let hosted = Container {
            network: Network::Host,
            ..plain.clone()
        };
        assert!(!ported.fits_twice() && !hosted.fits_twice());
        for (volumes, fits) in [
            (&["/srv/files:/files:ro"] as &[&str], true),
            (&["/srv/files:/files:ro", "data:/var/lib/data"], false),
            (&["/srv/files:/files"], false),
        ] {
            let mounted = Container {
                volumes: volumes.iter().map(|it| it.parse().unwrap()).collect(),
                ..plain.clone()
            };
            assert_eq!(mounted.fits_twice(), fits, "{volumes:?}");
        }
    }
}
