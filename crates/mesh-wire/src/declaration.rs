//! Declarations: the bytes the controller signs.

mod whole;

use std::collections::{BTreeMap, BTreeSet};

use mesh_model::{
    BusFacts, BusKind, BusPlace, Declaration, Generation, Home, Offer, Restart, Run, Sealed,
    Workload,
};
use serde::{Deserialize, Serialize};

use crate::codec::{self, Versions, field_of, text, texts, written};
use crate::error::{FieldError, WireError};

pub(crate) use whole::DeclarationV3;

const WHAT: &str = "declaration";

/// The bytes of a declaration, in the first version that can say it: what is signed, and sent inside
/// [`seal_signed`](crate::seal_signed).
pub fn encode_declaration(declaration: &Declaration) -> Vec<u8> {
    codec::write(&DeclarationForm::from(declaration))
}

/// The declaration in the body of what was signed; check the signature first.
pub fn decode_declaration(body: &[u8]) -> Result<Declaration, WireError> {
    let (found, declaration) = match codec::read(body)? {
        DeclarationForm::V1(form) => (1, form.try_into()),
        DeclarationForm::V2(form) => (2, form.try_into()),
        DeclarationForm::V3(form) => (3, form.try_into()),
    };
    let declaration = declaration.map_err(field_of(WHAT))?;
    codec::no_later(WHAT, found, version(&declaration))?;
    Ok(declaration)
}

/// The body alone: where it is kept, its version stands beside it.
pub(crate) fn kept_declaration(declaration: &Declaration) -> Vec<u8> {
    match declaration.into() {
        DeclarationForm::V1(form) => codec::write(&form),
        DeclarationForm::V2(form) => codec::write(&form),
        DeclarationForm::V3(form) => codec::write(&form),
    }
}

/// The first version that can say it, and so the only one it is written in.
pub(crate) fn version(declaration: &Declaration) -> u8 {
    if declaration.workloads.iter().any(whole::says_more) {
        3
    } else if declaration.home != Home::Here {
        2
    } else {
        1
    }
}

#[derive(Serialize, Deserialize)]
enum DeclarationForm {
    V1(DeclarationV1),
    V2(DeclarationV2),
    V3(DeclarationV3),
}

impl From<&Declaration> for DeclarationForm {
    fn from(declaration: &Declaration) -> Self {
        if version(declaration) > 2 {
            return Self::V3(declaration.into());
        }
        let first = declaration.into();
        match HomeV2::new(&declaration.home) {
            Some(home) => Self::V2(DeclarationV2 { first, home }),
            None => Self::V1(first),
        }
    }
}

impl Versions for DeclarationForm {
    const WHAT: &'static str = WHAT;
    const KNOWN: u32 = 3;
}

/// On the wire and on disk alike: neither can change it, and either may get a version of its own.
#[derive(Serialize, Deserialize)]
pub(crate) struct DeclarationV1 {
    node: String,
    generation: GenerationV1,
    workloads: Vec<WorkloadV1>,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct GenerationV1 {
    incarnation: u64,
    counter: u64,
}

#[derive(Serialize, Deserialize)]
struct WorkloadV1 {
    module: String,
    release: String,
    run: RunV1,
    after: BTreeSet<String>,
    env: BTreeMap<String, String>,
    restart: RestartV1,
    key: String,
    credential: Vec<u8>,
}

#[derive(Serialize, Deserialize)]
pub(crate) enum RunV1 {
    Command { program: String, args: Vec<String> },
}

#[derive(Serialize, Deserialize)]
pub(crate) enum RestartV1 {
    Always,
    OnFailure,
    Never,
}

/// With where the node is at home.
#[derive(Serialize, Deserialize)]
pub(crate) struct DeclarationV2 {
    first: DeclarationV1,
    home: HomeV2,
}

/// A node that is at home where it hears this has none.
#[derive(Serialize, Deserialize)]
enum HomeV2 {
    On(BusV2),
    Offered {
        bus: BusV2,
        urls: Vec<String>,
        ca: Option<String>,
        domain: Option<String>,
        account: String,
        credential: Vec<u8>,
    },
}

#[derive(Serialize, Deserialize)]
pub(crate) enum BusV2 {
    Nats,
    Amqp,
}

impl From<BusKind> for BusV2 {
    fn from(bus: BusKind) -> Self {
        match bus {
            BusKind::Nats => Self::Nats,
            BusKind::Amqp => Self::Amqp,
        }
    }
}

impl From<BusV2> for BusKind {
    fn from(form: BusV2) -> Self {
        match form {
            BusV2::Nats => Self::Nats,
            BusV2::Amqp => Self::Amqp,
        }
    }
}

impl HomeV2 {
    fn new(home: &Home) -> Option<Self> {
        Some(match home {
            Home::Here => return None,
            Home::On(bus) => Self::On((*bus).into()),
            Home::Offered(offer) => Self::Offered {
                bus: offer.bus.into(),
                urls: offer.place.urls.clone(),
                ca: offer.place.ca.clone(),
                domain: offer.place.facts.domain.clone(),
                account: offer.place.facts.account.clone(),
                credential: offer.credential.0.clone(),
            },
        })
    }
}

impl From<HomeV2> for Home {
    fn from(form: HomeV2) -> Self {
        match form {
            HomeV2::On(bus) => Self::On(bus.into()),
            HomeV2::Offered {
                bus,
                urls,
                ca,
                domain,
                account,
                credential,
            } => Self::Offered(Box::new(Offer {
                bus: bus.into(),
                place: BusPlace {
                    urls,
                    ca,
                    facts: BusFacts { domain, account },
                },
                credential: Sealed(credential),
            })),
        }
    }
}

impl TryFrom<DeclarationV2> for Declaration {
    type Error = FieldError;
    fn try_from(form: DeclarationV2) -> Result<Self, FieldError> {
        let first = Self::try_from(form.first)?;
        Ok(Self {
            home: form.home.into(),
            ..first
        })
    }
}

impl From<&Declaration> for DeclarationV1 {
    fn from(declaration: &Declaration) -> Self {
        Self {
            node: declaration.node.to_string(),
            generation: declaration.generation.into(),
            workloads: declaration.workloads.iter().map(Into::into).collect(),
        }
    }
}

impl TryFrom<DeclarationV1> for Declaration {
    type Error = FieldError;
    fn try_from(form: DeclarationV1) -> Result<Self, FieldError> {
        Ok(Self {
            node: text("node", form.node)?,
            generation: form.generation.into(),
            workloads: form
                .workloads
                .into_iter()
                .map(TryInto::try_into)
                .collect::<Result<_, _>>()?,
            home: Home::Here,
        })
    }
}

impl From<&Workload> for WorkloadV1 {
    fn from(workload: &Workload) -> Self {
        Self {
            module: workload.module.to_string(),
            release: workload.release.clone(),
            run: (&workload.run).into(),
            after: written(&workload.after),
            env: workload.env.clone(),
            restart: workload.restart.into(),
            key: workload.key.to_string(),
            credential: workload.credential.0.clone(),
        }
    }
}

impl TryFrom<WorkloadV1> for Workload {
    type Error = FieldError;
    fn try_from(form: WorkloadV1) -> Result<Self, FieldError> {
        Ok(Self {
            module: text("workloads.module", form.module)?,
            release: form.release,
            run: form.run.into(),
            after: texts("workloads.after", form.after)?,
            env: form.env,
            restart: form.restart.into(),
            key: text("workloads.key", form.key)?,
            credential: Sealed(form.credential),
            health: None,
            secrets: BTreeMap::new(),
            pull_secret: None,
            accepts: BTreeSet::new(),
        })
    }
}

impl From<Generation> for GenerationV1 {
    fn from(generation: Generation) -> Self {
        Self {
            incarnation: generation.incarnation,
            counter: generation.counter,
        }
    }
}

impl From<GenerationV1> for Generation {
    fn from(form: GenerationV1) -> Self {
        Self {
            incarnation: form.incarnation,
            counter: form.counter,
        }
    }
}

/// Of a command: a container is never written in this version.
impl From<&Run> for RunV1 {
    fn from(run: &Run) -> Self {
        let mut argv = run.argv().map(str::to_owned);
        Self::Command {
            program: argv.next().unwrap_or_default(),
            args: argv.collect(),
        }
    }
}

impl From<RunV1> for Run {
    fn from(form: RunV1) -> Self {
        let RunV1::Command { program, args } = form;
        Self::Command { program, args }
    }
}

impl From<Restart> for RestartV1 {
    fn from(restart: Restart) -> Self {
        match restart {
            Restart::Always => Self::Always,
            Restart::OnFailure => Self::OnFailure,
            Restart::Never => Self::Never,
        }
    }
}

impl From<RestartV1> for Restart {
    fn from(form: RestartV1) -> Self {
        match form {
            RestartV1::Always => Self::Always,
            RestartV1::OnFailure => Self::OnFailure,
            RestartV1::Never => Self::Never,
        }
    }
}
