//! Why an engine did not do what it was asked: what it answered, told apart.

use std::time::Duration;

/// Why an engine did not do what it was asked. Each is another thing for an operator to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Fault {
    /// Nobody listens there, or the connection broke.
    #[error("the container engine is away ({0}); it is tried again until it is back")]
    Away(String),
    /// It listens and does not answer.
    #[error(
        "the container engine is unresponsive: no answer to {what} within {}; it is tried again",
        seconds(*.after)
    )]
    Unresponsive {
        /// What it was asked.
        what: &'static str,
        /// How long it was given.
        after: Duration,
    },
    /// The registry does not let this image be read.
    #[error(
        "the registry refuses {image}: {why}; is pull_secret there, of the form user:password, and right?"
    )]
    Auth {
        /// Which image.
        image: String,
        /// What the engine said.
        why: String,
    },
    /// The registry has no such image, or no such tag of it.
    #[error("there is no {image} at its registry: {why}; correct image")]
    Unknown {
        /// Which image.
        image: String,
        /// What the engine said.
        why: String,
    },
    /// The registry cannot be spoken to.
    #[error("the registry of {image} cannot be reached: {why}; it is tried again")]
    Unreachable {
        /// Which image.
        image: String,
        /// What the engine said.
        why: String,
    },
    /// Neither a byte nor an extraction for too long.
    #[error(
        "the pull of {image} stalled ({at}): nothing moved for {}; it was dropped and is tried again",
        seconds(*.after)
    )]
    Stalled {
        /// Which image.
        image: String,
        /// How far it was.
        at: String,
        /// How long it was given.
        after: Duration,
    },
    /// What it is to be is not what came.
    #[error(
        "{image} is pinned to a digest, and what the engine has is {found}; it is not run: ask whoever runs the registry"
    )]
    OtherDigest {
        /// Which image.
        image: String,
        /// What is there.
        found: String,
    },
    /// No room.
    #[error(
        "disk-full: {why}; make room (`docker image prune`), and it is tried again once there is more"
    )]
    DiskFull {
        /// What the engine said, or what was worked out.
        why: String,
    },
    /// A container that is not this agent's has the name.
    #[error(
        "the name {name} is taken by a container that is not the mesh's, {by}; it is not touched: rename it or remove it"
    )]
    NameTaken {
        /// The name.
        name: String,
        /// Whose it is.
        by: String,
    },
    /// Something else listens on a port it is to have.
    #[error("a port it is to have is taken: {why}; free it, or give the module another")]
    PortTaken {
        /// What the engine said.
        why: String,
    },
    /// The image's program, or its arguments, cannot be started.
    #[error("its program cannot be started: {why}; correct args, or the image")]
    Program {
        /// What the engine said.
        why: String,
    },
    /// A volume is not there, or cannot be mounted.
    #[error("a volume cannot be mounted: {why}; make the path, or correct volumes")]
    Mount {
        /// What the engine said.
        why: String,
    },
    /// The image that was there is not any more.
    #[error("its image is gone from the engine: {why}; it is fetched again")]
    ImageGone {
        /// What the engine said.
        why: String,
    },
    /// There is no such container.
    #[error("the container is not there any more")]
    Missing,
    /// Something else is being done to it.
    #[error("the container engine is busy with it: {why}")]
    Conflict {
        /// What the engine said.
        why: String,
    },
    /// Anything else.
    #[error("the container engine refuses {what}: {why}")]
    Refused {
        /// What it was asked.
        what: &'static str,
        /// What it said.
        why: String,
    },
    /// There is none.
    #[error("{0}")]
    NoEngine(String),
}

impl Fault {
    /// Whether it says nothing about the module, but that the engine is not there to ask.
    pub(crate) const fn is_of_the_engine(&self) -> bool {
        matches!(
            self,
            Self::Away(_) | Self::Unresponsive { .. } | Self::NoEngine(_)
        )
    }

    /// Whether an image that is there by the same name may stand in for one that could not be asked for.
    pub(crate) const fn is_of_the_way(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::Stalled { .. })
    }
}

/// What was being done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked<'a> {
    /// To fetch an image.
    Pull(&'a str),
    /// Anything else, in words.
    Other(&'static str),
}

/// What an engine's refusal means. `status` is that of HTTP, nothing where it came amid a stream.
pub(crate) fn classify(asked: Asked<'_>, status: Option<u16>, message: &str) -> Fault {
    let why = one_sentence(message);
    let says = |texts: &[&str]| {
        let lower = message.to_lowercase();
        texts.iter().any(|text| lower.contains(text))
    };
    // The outermost cause first: a full disk breaks everything, and its text stands at the end of any of them.
    if says(&["no space left on device", "disk quota exceeded"]) {
        return Fault::DiskFull { why };
    }
    match asked {
        Asked::Pull(image) => of_pull(image.to_owned(), why, says),
        Asked::Other(what) => of_container(what, status, why, says),
    }
}

fn of_pull(image: String, why: String, says: impl Fn(&[&str]) -> bool) -> Fault {
    if says(UNREACHABLE) {
        Fault::Unreachable { image, why }
    } else if says(UNKNOWN) {
        Fault::Unknown { image, why }
    } else if says(AUTH) {
        Fault::Auth { image, why }
    } else {
        Fault::Refused {
            what: "to fetch its image",
            why,
        }
    }
}

fn of_container(
    what: &'static str,
    status: Option<u16>,
    why: String,
    says: impl Fn(&[&str]) -> bool,
) -> Fault {
    if says(&["no such image", "image not known", "unable to find image"]) {
        Fault::ImageGone { why }
    } else if says(&["no such container", "no container with name or id"]) {
        Fault::Missing
    } else if says(PORT) {
        Fault::PortTaken { why }
    } else if says(MOUNT) {
        Fault::Mount { why }
    } else if says(PROGRAM) {
        Fault::Program { why }
    } else if status == Some(409) || says(&["is already in use by", "name is already in use"]) {
        Fault::Conflict { why }
    } else if status == Some(404) {
        Fault::Missing
    } else {
        Fault::Refused { what, why }
    }
}

const UNREACHABLE: &[&str] = &[
    "connection refused",
    "connection reset",
    "no such host",
    "no route to host",
    "network is unreachable",
    "server misbehaving",
    "temporary failure in name resolution",
    "i/o timeout",
    "tls handshake",
    "x509:",
    "server gave http response to https client",
    "context deadline exceeded",
    "request canceled while waiting for connection",
    "client.timeout exceeded",
    "unexpected eof",
    ": eof",
    "broken pipe",
    "502 bad gateway",
    "503 service unavailable",
    "504 gateway",
    "500 internal server error",
    "toomanyrequests",
];
const UNKNOWN: &[&str] = &[
    "manifest unknown",
    "name unknown",
    "not known to registry",
    "no matching manifest",
    "manifest for",
    "not found",
];
const AUTH: &[&str] = &[
    "unauthorized",
    "access denied",
    "denied:",
    "no basic auth credentials",
    "invalid username/password",
    "authentication required",
    "403 forbidden",
    "401 unauthorized",
];
const PORT: &[&str] = &["port is already allocated", "address already in use"];
const MOUNT: &[&str] = &[
    "bind source path does not exist",
    "invalid mount config",
    "statfs ",
    "error mounting",
    "error while mounting volume",
    "failed to mount",
    "includes invalid characters for a local volume name",
];
const PROGRAM: &[&str] = &[
    "executable file not found",
    "exec format error",
    "no command specified",
    "no command or entrypoint provided",
    "command that was not found",
    "oci permission denied",
    "unable to start container process",
    "permission denied: unknown",
    "starting container process caused",
];

/// An engine's words without what it says of itself before them, as one line.
fn one_sentence(message: &str) -> String {
    let trimmed = message
        .trim()
        .trim_start_matches("Error response from daemon: ");
    let line: Vec<&str> = trimmed.split_whitespace().collect();
    let line = line.join(" ");
    match line.char_indices().nth(LONGEST) {
        Some((at, _)) => format!("{}…", line.get(..at).unwrap_or_default()),
        None if line.is_empty() => "it says no more".to_owned(),
        None => line,
    }
}

/// Characters of an engine's words that are repeated.
const LONGEST: usize = 600;

fn seconds(duration: Duration) -> String {
    match duration.as_secs() {
        0 => format!("{} ms", duration.as_millis()),
        secs => format!("{secs} s"),
    }
}

#[cfg(test)]
mod tests;
