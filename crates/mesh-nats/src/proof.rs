//! Proves that a running server holds exactly a plan: each principal does everything it may, attempts everything near it
//! that it may not, and the server's own word is held against the plan. Nothing of it lasts.

mod answer;
mod found;
mod identity;
mod pipe;
mod prober;
mod reading;
mod wire;
mod witness;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::{StreamExt, stream};
use mesh_bus::BusError;
use mesh_derive::Plan;
use mesh_derive::proof::{Act, Expected, Extent, Probe, expected, probes};
use mesh_model::{BusFacts, Principal};
use tokio::time::timeout;

pub use found::{Found, Text};

use crate::connect::{Credential, Endpoint};
use found::{Untried, Verdict};
use witness::{Heard, Witness};

/// What a proof needs besides the plan.
#[derive(Debug, Clone)]
pub struct Proving {
    /// Where the server is.
    pub endpoint: Endpoint,
    /// The controller's credential in the account that holds JetStream: there it is seen what arrives.
    pub controller: Credential,
    /// What of the bus stands in subjects.
    pub facts: BusFacts,
    /// How much of everybody else is held against each.
    pub extent: Extent,
    /// How many principals are connected at once; one at least.
    pub at_a_time: usize,
    /// How long it may take in all, whatever the server does.
    pub within: Duration,
}

/// What a proof came to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Proof {
    /// Of each principal, how much was tried.
    pub principals: BTreeMap<Principal, Tried>,
    /// Where the server is another than the plan, by principal and act.
    pub differences: Vec<Difference>,
}

/// How much of one principal was tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tried {
    /// Acts that must be allowed.
    pub allowed: usize,
    /// Acts that must be refused.
    pub refused: usize,
    /// Replies that must have no effect.
    pub injections: usize,
    /// Acts that were not tried: since the connection ended before, and then a difference says why; or of a module, which
    /// has no inbox, subscriptions that might take what is delivered, and replies. Those of its instances are tried.
    pub untried: usize,
}

/// One act of which something else came than the plan says.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Difference {
    /// Whose.
    pub principal: Principal,
    /// What it attempted.
    pub act: Act,
    /// What the plan says.
    pub expected: Expected,
    /// What came of it.
    pub found: Found,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {}: {}, and {}",
            self.principal, self.act, self.expected, self.found
        )
    }
}

/// What came of one act.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// What the plan says.
    pub expected: Expected,
    /// What came of it.
    pub found: Found,
}

impl Outcome {
    /// Whether the server holds to the plan in this.
    pub fn agrees(&self) -> bool {
        self.found.is(&self.expected)
    }
}

/// Why nothing can be said.
#[derive(Debug, thiserror::Error)]
pub enum ProveError {
    /// The controller's own connection, which sees what arrives.
    #[error("what arrives cannot be watched: {0}; try again when the controller can reach the bus")]
    Watching(#[source] BusError),
    /// A call of the API by the controller itself was not announced, so that silence would say nothing.
    #[error(
        "the server does not announce calls of the API ({0}); see that nobody else subscribes in the controller's place and \
         that its grant has $JS.EVENT.ADVISORY.>"
    )]
    Unannounced(String),
    /// Somebody the plan does not know.
    #[error("{0} is not in the plan, so there is nothing to hold the server to")]
    NoGrant(Principal),
    /// It took longer than it may.
    #[error(
        "the proof was not through within {} s: of {done} of {asked} principals everything was tried; ask of fewer at once",
        within.as_secs_f32()
    )]
    Late {
        /// Of how many principals everything was tried.
        done: usize,
        /// Of how many it was to be.
        asked: usize,
        /// How long it had.
        within: Duration,
    },
}

/// Proves the plan of everybody there is a key for, the controller as anybody else. The keys must be known to the server,
/// as further users of those principals (`mesh_derive::proof::with_probers`); who writes them there is another's to see
/// to.
///
/// Dropped before its end, it closes its connections and leaves nothing behind.
pub async fn prove(
    proving: &Proving,
    plan: &Plan,
    keys: &BTreeMap<Principal, Credential>,
) -> Result<Proof, ProveError> {
    for principal in keys.keys() {
        granted(plan, principal)?;
    }
    let done = AtomicUsize::new(0);
    let through = timeout(proving.within, prove_each(proving, plan, keys, &done)).await;
    through.unwrap_or_else(|_| {
        Err(ProveError::Late {
            done: done.load(Ordering::Relaxed),
            asked: keys.len(),
            within: proving.within,
        })
    })
}

async fn prove_each(
    proving: &Proving,
    plan: &Plan,
    keys: &BTreeMap<Principal, Credential>,
    done: &AtomicUsize,
) -> Result<Proof, ProveError> {
    let mut witness = Witness::open(proving).await?;
    let nonce = witness.nonce().to_owned();
    // Owned: of what is borrowed in a stream the compiler cannot tell that it may go to another thread.
    let keys = keys.clone().into_iter().enumerate();
    let judged = keys.map(|(at, (principal, key))| {
        let mark = format!("{nonce}-{at}");
        async move {
            let asked = probes(plan, &principal, &proving.facts, proving.extent);
            let verdicts = prober::attempt(proving, plan, (&principal, &key), &asked, &mark).await;
            done.fetch_add(1, Ordering::Relaxed);
            Judged::of(&principal, asked, verdicts)
        }
    });
    let judged = stream::iter(judged)
        .buffer_unordered(proving.at_a_time.max(1))
        .collect::<Vec<_>>();
    let judged = tokio::select! {
        judged = judged => judged,
        error = witness.listen() => return Err(ProveError::Watching(error)),
    };
    let heard = witness.close().await?;
    let mut proof = Proof::default();
    for judged in judged {
        let (principal, tried) = judged.tried.clone();
        proof.principals.insert(principal, tried);
        proof.differences.extend(judged.differences(&heard));
    }
    proof.differences.sort();
    Ok(proof)
}

/// Attempts one act, and says what the plan says of it. One of which it cannot be ruled out that something comes is not
/// tried, and what was found says so.
pub async fn prove_one(
    proving: &Proving,
    plan: &Plan,
    principal: &Principal,
    key: &Credential,
    act: &Act,
) -> Result<Outcome, ProveError> {
    granted(plan, principal)?;
    let found = timeout(proving.within, one(proving, plan, (principal, key), act)).await;
    let late = |_| {
        Err(ProveError::Late {
            done: 0,
            asked: 1,
            within: proving.within,
        })
    };
    Ok(Outcome {
        found: found.unwrap_or_else(late)?,
        expected: expected(plan, principal, act),
    })
}

async fn one(
    proving: &Proving,
    plan: &Plan,
    (principal, key): (&Principal, &Credential),
    act: &Act,
) -> Result<Found, ProveError> {
    let probe = |act: Act| Probe {
        expected: expected(plan, principal, &act),
        act,
    };
    let mut asked = vec![probe(act.clone())];
    if let Act::Inject { subject, .. } = act {
        // Its answer shows that the reply has been dealt with.
        asked.push(probe(Act::Publish(subject.clone())));
    }
    let mut witness = Witness::open(proving).await?;
    let mark = format!("{}-one", witness.nonce());
    let verdicts = prober::attempt(proving, plan, (principal, key), &asked, &mark);
    let verdicts = tokio::select! {
        verdicts = verdicts => verdicts,
        error = witness.listen() => return Err(ProveError::Watching(error)),
    };
    let heard = witness.close().await?;
    let verdict = verdicts.into_iter().next();
    Ok(heard.judge(verdict.unwrap_or(Verdict::Untried(Untried::Ended))))
}

fn granted(plan: &Plan, principal: &Principal) -> Result<(), ProveError> {
    if plan.grants.contains_key(principal) {
        Ok(())
    } else {
        Err(ProveError::NoGrant(principal.clone()))
    }
}

impl Proof {
    /// Whether the server holds exactly the plan, as far as it was asked.
    pub fn holds(&self) -> bool {
        self.differences.is_empty()
    }
}

/// What came of one principal's acts, so far as it can be told before everything has been heard. Of what agrees nothing
/// is kept: a mesh of a thousand principals makes some hundred thousand attempts.
struct Judged {
    tried: (Principal, Tried),
    open: Vec<(Probe, Verdict)>,
}

impl Judged {
    fn of(principal: &Principal, asked: Vec<Probe>, verdicts: Vec<Verdict>) -> Self {
        let mut tried = Tried::default();
        for (probe, verdict) in asked.iter().zip(&verdicts) {
            match (verdict, &probe.expected) {
                (Verdict::Untried(_), _) => tried.untried += 1,
                (_, Expected::Allowed(_)) => tried.allowed += 1,
                (_, Expected::Refused) => tried.refused += 1,
                (_, Expected::NoEffect) => tried.injections += 1,
            }
        }
        let asked = asked.into_iter().zip(verdicts);
        let open = asked.filter(|(probe, verdict)| match verdict {
            Verdict::Found(found) => !found.is(&probe.expected),
            Verdict::Watched(_) => true,
            // If the connection ended, the act at which it did says why.
            Verdict::Untried(_) => false,
        });
        Self {
            tried: (principal.clone(), tried),
            open: open.collect(),
        }
    }

    fn differences(self, heard: &Heard) -> impl Iterator<Item = Difference> {
        let (principal, _) = self.tried;
        self.open.into_iter().filter_map(move |(probe, verdict)| {
            let found = heard.judge(verdict);
            (!found.is(&probe.expected)).then(|| Difference {
                principal: principal.clone(),
                act: probe.act,
                expected: probe.expected,
                found,
            })
        })
    }
}

#[cfg(test)]
mod tests;
