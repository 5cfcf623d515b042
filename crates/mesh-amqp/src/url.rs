//! Where a broker is, as a URL says it: `amqps://HOST:PORT/VHOST?users=PREFIX`, and its management as `https://HOST:PORT`.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use data_encoding::HEXLOWER_PERMISSIVE;

use crate::endpoint::{Endpoint, Trust};
use crate::management::{Management, part};

/// A broker, as a URL names it. It says nothing of who logs in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokerUrl {
    /// Over TLS. What is not is on loopback.
    pub encrypted: bool,
    /// Its host.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// The virtual host the mesh has to itself.
    pub vhost: String,
    /// What the name of each of the mesh's users begins with.
    pub users: String,
}

/// The management of a broker, as a URL names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManagementUrl {
    /// Over TLS. What is not is on loopback.
    pub encrypted: bool,
    /// Its host.
    pub host: String,
    /// Its port.
    pub port: u16,
}

/// Who may administer a broker.
#[derive(Clone, PartialEq, Eq)]
pub struct Account {
    /// The name.
    pub user: String,
    /// The password.
    pub password: String,
}

/// A text that is no address of a broker. It never shows what stands before an `@`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidUrl {
    /// Another scheme, or none.
    #[error("{url:?} is no address of {what}: write for instance {example}")]
    Form {
        /// What was written.
        url: String,
        /// What it should be.
        what: &'static str,
        /// How one looks.
        example: &'static str,
    },
    /// Plain text over a network.
    #[error(
        "{url:?} is neither encrypted nor on loopback: passwords and tokens would cross the wire for everybody to read; \
         write {scheme}://"
    )]
    Plain {
        /// What was written.
        url: String,
        /// What encrypts.
        scheme: &'static str,
    },
    /// A login where none belongs.
    #[error(
        "{url:?} has a login in it, and everybody here logs in with a credential of his own; leave it out"
    )]
    Login {
        /// What was written.
        url: String,
    },
    /// Several that do not belong together.
    #[error(
        "{url:?} differs from the one before it in its scheme, its virtual host or its users; name one broker"
    )]
    Another {
        /// The later one.
        url: String,
    },
    /// TLS, and nobody to trust.
    #[error("{url:?} speaks TLS, and nobody vouches for its certificate; name the authority's")]
    Untrusted {
        /// The broker.
        url: String,
    },
    /// No broker.
    #[error("no broker is named")]
    None,
}

impl BrokerUrl {
    /// Reads an address, with the account in it if there is one.
    pub fn with_account(text: &str) -> Result<(Self, Option<Account>), InvalidUrl> {
        let read = Parts::read(text, ["amqps", "amqp"], [5671, 5672]);
        let invalid = || InvalidUrl::Form {
            url: shown(text),
            what: "a broker",
            example: "amqps://bus.example:5671/mesh",
        };
        let parts = read.ok_or_else(invalid)?;
        let users = match parts.query.split_once('=') {
            None if parts.query.is_empty() => String::new(),
            Some(("users", prefix)) if prefix.bytes().all(is_of_a_name) => prefix.to_owned(),
            _ => return Err(invalid()),
        };
        let vhost = match parts.path {
            "" => "/".to_owned(),
            path => decoded(path).ok_or_else(invalid)?,
        };
        let url = Self {
            encrypted: parts.encrypted,
            host: parts.host,
            port: parts.port,
            vhost,
            users,
        };
        if !url.encrypted && !is_loopback(&url.host) {
            return Err(InvalidUrl::Plain {
                url: shown(text),
                scheme: "amqps",
            });
        }
        Ok((url, parts.account))
    }
}

impl FromStr for BrokerUrl {
    type Err = InvalidUrl;

    fn from_str(text: &str) -> Result<Self, InvalidUrl> {
        match Self::with_account(text)? {
            (url, None) => Ok(url),
            (_, Some(_)) => Err(InvalidUrl::Login { url: shown(text) }),
        }
    }
}

impl fmt::Display for BrokerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.encrypted { "amqps" } else { "amqp" };
        let (host, vhost) = (in_url(&self.host), part(&self.vhost));
        write!(f, "{scheme}://{host}:{}/{vhost}", self.port)?;
        if self.users.is_empty() {
            return Ok(());
        }
        write!(f, "?users={}", self.users)
    }
}

impl ManagementUrl {
    /// Whoever provisions through it.
    pub fn management(&self, trust: Option<Trust>, account: Account) -> Management {
        Management {
            host: self.host.clone(),
            port: self.port,
            trust: trust.filter(|_| self.encrypted),
            user: account.user,
            password: account.password,
        }
    }
}

impl FromStr for ManagementUrl {
    type Err = InvalidUrl;

    fn from_str(text: &str) -> Result<Self, InvalidUrl> {
        let parts = Parts::read(text, ["https", "http"], [15671, 15672]);
        let parts = parts.filter(|parts| parts.path.is_empty() && parts.query.is_empty());
        let parts = parts.ok_or_else(|| InvalidUrl::Form {
            url: shown(text),
            what: "a broker's management",
            example: "https://bus.example:15671",
        })?;
        if parts.account.is_some() {
            return Err(InvalidUrl::Login { url: shown(text) });
        }
        if !parts.encrypted && !is_loopback(&parts.host) {
            return Err(InvalidUrl::Plain {
                url: shown(text),
                scheme: "https",
            });
        }
        Ok(Self {
            encrypted: parts.encrypted,
            host: parts.host,
            port: parts.port,
        })
    }
}

impl fmt::Display for ManagementUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.encrypted { "https" } else { "http" };
        write!(f, "{scheme}://{}:{}", in_url(&self.host), self.port)
    }
}

impl Endpoint {
    /// The broker of these URLs: its servers are tried in turn.
    pub fn of_urls(
        urls: &[impl AsRef<str>],
        trust: Option<Trust>,
        name: &str,
    ) -> Result<Self, InvalidUrl> {
        let mut servers = Vec::new();
        let mut first: Option<BrokerUrl> = None;
        for text in urls {
            let url: BrokerUrl = text.as_ref().parse()?;
            let of = |url: &BrokerUrl| (url.encrypted, url.vhost.clone(), url.users.clone());
            if first.as_ref().is_some_and(|first| of(first) != of(&url)) {
                let url = url.to_string();
                return Err(InvalidUrl::Another { url });
            }
            servers.push((url.host.clone(), url.port));
            first.get_or_insert(url);
        }
        let first = first.ok_or(InvalidUrl::None)?;
        if first.encrypted && trust.is_none() {
            let url = first.to_string();
            return Err(InvalidUrl::Untrusted { url });
        }
        Ok(Self {
            servers,
            vhost: first.vhost,
            users: first.users,
            trust: trust.filter(|_| first.encrypted),
            name: name.to_owned(),
        })
    }
}

impl fmt::Debug for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Account")
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

/// A URL, taken apart.
struct Parts<'a> {
    encrypted: bool,
    account: Option<Account>,
    host: String,
    port: u16,
    path: &'a str,
    query: &'a str,
}

impl<'a> Parts<'a> {
    /// With the encrypted scheme and its port first.
    fn read(text: &'a str, schemes: [&str; 2], ports: [u16; 2]) -> Option<Self> {
        let (scheme, rest) = text.split_once("://")?;
        let [encrypted, plain] = schemes.map(|it| it == scheme);
        let [over_tls, without] = ports;
        let port = match (encrypted, plain) {
            (true, _) => over_tls,
            (_, true) => without,
            _ => return None,
        };
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (login, at) = match authority.rsplit_once('@') {
            Some((login, at)) => (Some(login), at),
            None => (None, authority),
        };
        let account = match login {
            Some(login) => Some(account(login)?),
            None => None,
        };
        let (host, port) = host_and_port(at, port)?;
        Some(Self {
            encrypted,
            account,
            host,
            port,
            path,
            query,
        })
    }
}

fn account(login: &str) -> Option<Account> {
    let (user, password) = login.split_once(':')?;
    let (user, password) = (decoded(user)?, decoded(password)?);
    (!user.is_empty() && !password.is_empty()).then_some(Account { user, password })
}

fn host_and_port(at: &str, default: u16) -> Option<(String, u16)> {
    let (host, port) = match at.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']')?;
            host.parse::<IpAddr>().ok()?;
            let port = match port.strip_prefix(':') {
                None if port.is_empty() => None,
                port => Some(port?),
            };
            (host, port)
        }
        None => match at.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (at, None),
        },
    };
    let allowed = |byte| is_of_a_name(byte) || byte == b':';
    if host.is_empty() || !host.bytes().all(allowed) {
        return None;
    }
    let port = port.map_or(Some(default), |port| port.parse().ok())?;
    Some((host.to_owned(), port))
}

const fn is_of_a_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_')
}

/// A text whose `%` stand for bytes.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut parts = text.split('%');
    bytes.extend(parts.next()?.bytes());
    for part in parts {
        let (digits, rest) = part.split_at_checked(2)?;
        bytes.extend(HEXLOWER_PERMISSIVE.decode(digits.as_bytes()).ok()?);
        bytes.extend(rest.bytes());
    }
    String::from_utf8(bytes).ok()
}

fn in_url(host: &str) -> String {
    if host.contains(':') {
        format!("[{host}]")
    } else {
        host.to_owned()
    }
}

fn is_loopback(host: &str) -> bool {
    host == "localhost"
        || host
            .parse::<IpAddr>()
            .is_ok_and(|address| address.is_loopback())
}

/// What may be shown of a text that may have a password in it.
fn shown(text: &str) -> String {
    if let Some((before, after)) = text.rsplit_once('@') {
        let scheme = before.split_once("://").map_or("", |(scheme, _)| scheme);
        return format!("{scheme}://…@{after}");
    }
    let (scheme, rest) = text.split_once("://").unwrap_or(("", text));
    let at = rest.split(['/', '?']).next().unwrap_or_default();
    let after_address = at.rsplit_once(']').map_or(at, |(_, port)| port);
    let port = after_address.split_once(':').map_or("", |(_, port)| port);
    if port.bytes().all(|byte| byte.is_ascii_digit()) {
        return text.to_owned();
    }
    // With its host forgotten a login looks like a host and its port.
    format!("{scheme}://…")
}

#[cfg(test)]
mod tests;
