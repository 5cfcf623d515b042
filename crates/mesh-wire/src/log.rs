//! What is asked of a node for now, and what it says to that: some of a module's log. Kept nowhere.

use mesh_model::{ModuleName, NodeName, Timestamp};
use serde::{Deserialize, Serialize};

use crate::codec::{self, Versions, field_of, line, text};
use crate::error::{FieldError, WireError};

const ASK: &str = "ask";
const PART: &str = "part of a log";

/// What the controller asks a node for. It is signed: see [`SignedKind::Ask`](crate::SignedKind::Ask).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ask {
    /// The node: what is asked of another is nothing of one's own.
    pub node: NodeName,
    /// When it was asked. Later ones of one reading are later.
    pub at: Timestamp,
    /// Which reading it is about; none other ever has this number.
    pub reading: u64,
    /// What for.
    pub what: Asked,
}

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Asked {
    /// A module's log, from now on read by somebody.
    Log {
        /// The module.
        module: ModuleName,
        /// How many of its last lines.
        tail: u32,
        /// Whether what is written from now on as well.
        follow: bool,
        /// How much may be said, as [`LogSaid::cost`] counts.
        room: u64,
    },
    /// Somebody still reads, and so much in all may be said since the reading began.
    More {
        /// How much.
        room: u64,
    },
    /// Nobody reads any more.
    Enough,
}

/// Some of a module's log, as a node sends it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogPart {
    /// To which reading.
    pub reading: u64,
    /// The first is 1, and each one more than the one before.
    pub number: u64,
    /// How much was said since the reading began, this included.
    pub cost: u64,
    /// What is said, in order. Nothing is: it is still read.
    pub said: Vec<LogSaid>,
    /// Why this is the last part, if it is.
    pub end: Option<LogEnd>,
}

/// One thing a log says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogSaid {
    /// A line, without what ended it.
    Line {
        /// As the module wrote it.
        bytes: Vec<u8>,
        /// It was longer, and what is left of it is not there.
        cut: bool,
    },
    /// So many lines were left out here, since they were not read fast enough.
    Dropped(u64),
}

impl LogSaid {
    /// How much of its room it takes.
    pub fn cost(&self) -> u64 {
        let bytes = match self {
            Self::Line { bytes, .. } => bytes.len(),
            Self::Dropped(_) => 0,
        };
        u64::try_from(bytes)
            .unwrap_or(u64::MAX)
            .saturating_add(EACH)
    }
}

/// What a line takes that says nothing.
const EACH: u64 = 16;

/// Why nothing more of a log comes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogEnd {
    /// That was all.
    Whole,
    /// The module has no log on this node.
    NotHere,
    /// The node has as many readings as it takes at once.
    TooMany,
    /// The node knows of no such reading: its agent was started anew, or nobody asked for long.
    Unknown,
    /// It cannot be read.
    Failed(String),
}

/// The bytes of an ask, to be signed.
pub fn encode_ask(ask: &Ask) -> Vec<u8> {
    codec::write(&AskForm::V1(ask.into()))
}

/// The ask in these bytes. Whether the controller signed it is not known here.
pub fn decode_ask(bytes: &[u8]) -> Result<Ask, WireError> {
    let AskForm::V1(form) = codec::read(bytes)?;
    form.try_into().map_err(field_of(ASK))
}

/// The bytes of a part of a log.
pub fn encode_log_part(part: &LogPart) -> Vec<u8> {
    codec::write(&PartForm::V1(part.into()))
}

/// The part of a log in these bytes.
pub fn decode_log_part(bytes: &[u8]) -> Result<LogPart, WireError> {
    let PartForm::V1(form) = codec::read(bytes)?;
    form.try_into().map_err(field_of(PART))
}

#[derive(Serialize, Deserialize)]
enum AskForm {
    V1(AskV1),
}

impl Versions for AskForm {
    const WHAT: &'static str = ASK;
    const KNOWN: u32 = 1;
}

#[derive(Serialize, Deserialize)]
struct AskV1 {
    node: String,
    at_millis: u64,
    reading: u64,
    what: AskedV1,
}

#[derive(Serialize, Deserialize)]
enum AskedV1 {
    Log {
        module: String,
        tail: u32,
        follow: bool,
        room: u64,
    },
    More {
        room: u64,
    },
    Enough,
}

impl From<&Ask> for AskV1 {
    fn from(ask: &Ask) -> Self {
        Self {
            node: ask.node.to_string(),
            at_millis: ask.at.as_millis(),
            reading: ask.reading,
            what: match &ask.what {
                Asked::Log {
                    module,
                    tail,
                    follow,
                    room,
                } => AskedV1::Log {
                    module: module.to_string(),
                    tail: *tail,
                    follow: *follow,
                    room: *room,
                },
                Asked::More { room } => AskedV1::More { room: *room },
                Asked::Enough => AskedV1::Enough,
            },
        }
    }
}

impl TryFrom<AskV1> for Ask {
    type Error = FieldError;

    fn try_from(form: AskV1) -> Result<Self, FieldError> {
        let what = match form.what {
            AskedV1::Log {
                module,
                tail,
                follow,
                room,
            } => Asked::Log {
                module: text("module", module)?,
                tail,
                follow,
                room,
            },
            AskedV1::More { room } => Asked::More { room },
            AskedV1::Enough => Asked::Enough,
        };
        Ok(Self {
            node: text("node", form.node)?,
            at: Timestamp::from_millis(form.at_millis),
            reading: form.reading,
            what,
        })
    }
}

#[derive(Serialize, Deserialize)]
enum PartForm {
    V1(PartV1),
}

impl Versions for PartForm {
    const WHAT: &'static str = PART;
    const KNOWN: u32 = 1;
}

#[derive(Serialize, Deserialize)]
struct PartV1 {
    reading: u64,
    number: u64,
    cost: u64,
    said: Vec<SaidV1>,
    end: Option<EndV1>,
}

#[derive(Serialize, Deserialize)]
enum SaidV1 {
    Line { bytes: Vec<u8>, cut: bool },
    Dropped(u64),
}

#[derive(Serialize, Deserialize)]
enum EndV1 {
    Whole,
    NotHere,
    TooMany,
    Unknown,
    Failed(String),
}

impl From<&LogPart> for PartV1 {
    fn from(part: &LogPart) -> Self {
        let said = part.said.iter().map(|said| match said {
            LogSaid::Line { bytes, cut } => SaidV1::Line {
                bytes: bytes.clone(),
                cut: *cut,
            },
            LogSaid::Dropped(lines) => SaidV1::Dropped(*lines),
        });
        let end = part.end.as_ref().map(|end| match end {
            LogEnd::Whole => EndV1::Whole,
            LogEnd::NotHere => EndV1::NotHere,
            LogEnd::TooMany => EndV1::TooMany,
            LogEnd::Unknown => EndV1::Unknown,
            LogEnd::Failed(why) => EndV1::Failed(mesh_model::one_line(why)),
        });
        Self {
            reading: part.reading,
            number: part.number,
            cost: part.cost,
            said: said.collect(),
            end,
        }
    }
}

impl TryFrom<PartV1> for LogPart {
    type Error = FieldError;

    fn try_from(form: PartV1) -> Result<Self, FieldError> {
        let said = form.said.into_iter().map(|said| match said {
            SaidV1::Line { bytes, cut } => LogSaid::Line { bytes, cut },
            SaidV1::Dropped(lines) => LogSaid::Dropped(lines),
        });
        let end = form.end.map(|end| {
            Ok(match end {
                EndV1::Whole => LogEnd::Whole,
                EndV1::NotHere => LogEnd::NotHere,
                EndV1::TooMany => LogEnd::TooMany,
                EndV1::Unknown => LogEnd::Unknown,
                EndV1::Failed(why) => LogEnd::Failed(line("end.failed", why)?),
            })
        });
        Ok(Self {
            reading: form.reading,
            number: form.number,
            cost: form.cost,
            said: said.collect(),
            end: end.transpose()?,
        })
    }
}
