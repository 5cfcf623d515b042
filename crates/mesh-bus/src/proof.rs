//! A proof on the live bus: as whom it connects, and what came of it.

use std::fmt;

use mesh_model::{Principal, PublicKey};

use crate::seam::BusError;

/// As whom a proof connects.
#[derive(Clone, PartialEq, Eq)]
pub enum Prober {
    /// As the controller, with the credential it has.
    Controller,
    /// As anybody else, with a key made for this and known to the bus for as long as it takes.
    Guest {
        /// As whom.
        principal: Principal,
        /// The public half.
        key: PublicKey,
        /// The secret half.
        seed: String,
    },
}

impl Prober {
    /// As whom.
    pub fn principal(&self) -> &Principal {
        match self {
            Self::Controller => &Principal::Controller,
            Self::Guest { principal, .. } => principal,
        }
    }
}

impl fmt::Debug for Prober {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Prober({})", self.principal())
    }
}

/// What the bus let one principal do, beside what was derived for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proven {
    /// As whom.
    pub principal: Principal,
    /// How many acts were tried that its grant allows.
    pub allowed: usize,
    /// How many that it does not.
    pub refused: usize,
    /// How many replies that name what is not its own to reach.
    pub injections: usize,
    /// How many the bus lets happen although no grant allows them, and whoever reads them does not believe.
    pub held: usize,
    /// How many were not tried: a module that has no inbox cannot listen and leave what waits alone, and its instances show
    /// the same; or the connection had ended, of which a difference tells.
    pub untried: usize,
    /// Each act of which something else came than was derived, in words.
    pub differences: Vec<String>,
}

/// What came of one act, and what was seen of that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Attempted {
    /// The bus let it happen.
    Allowed(String),
    /// It did not.
    Refused(String),
    /// Neither was seen.
    Unclear(String),
}

/// Why a proof says nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnprovenError {
    /// There is one at a time: each has users of its own.
    #[error("a proof of this bus is under way; try again when it has ended")]
    UnderWay,
    /// Nobody can be let in.
    #[error("this bus cannot be asked: {0}")]
    CannotAsk(String),
    /// What is asserted is not what was to be proven.
    #[error("the mesh changed meanwhile; try again")]
    Changed,
    /// The bus.
    #[error(transparent)]
    Bus(#[from] BusError),
}
