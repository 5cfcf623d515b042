//! A proof on the bus of a running controller: its keys become users for as long as it takes.

use std::collections::BTreeMap;
use std::time::Duration;

use mesh_bus::{Attempted, BusError, ControllerBus, Prober, Proven, UnprovenError};
use mesh_derive::Plan;
use mesh_derive::proof::{Act, Extent, with_probers};
use mesh_model::Principal;
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::timeout;

use crate::authority::Authority;
use crate::connect::Credential;
use crate::controller::NatsController;
use crate::guests::Stay;
use crate::proof::{Found, Proof, ProveError, Proving, prove, prove_one};

impl NatsController {
    /// Proves the plan of these principals.
    pub(crate) async fn prove_all(
        &self,
        plan: &Plan,
        probers: &[Prober],
    ) -> Result<Vec<Proven>, UnprovenError> {
        let _alone = alone(&self.proving).await?;
        let stay = self.let_in(plan, probers).await?;
        let keys = probers
            .iter()
            .map(|prober| (prober.principal().clone(), self.credential_of(prober)))
            .collect();
        let proof = prove(&self.proving_of(plan), plan, &keys)
            .await
            .map_err(unproven)?;
        see_out(stay).await?;
        let asked = |principal: &Principal| probers.iter().any(|p| p.principal() == principal);
        let proven = proof.principals.iter().filter(|(of, _)| asked(of));
        Ok(proven
            .map(|(principal, tried)| Proven {
                principal: principal.clone(),
                allowed: tried.allowed,
                refused: tried.refused,
                injections: tried.injections,
                held: 0,
                untried: tried.untried,
                differences: differences(&proof, principal),
            })
            .collect())
    }

    /// Tries one act as one principal.
    pub(crate) async fn attempt_one(
        &self,
        plan: &Plan,
        prober: &Prober,
        act: &Act,
    ) -> Result<Attempted, UnprovenError> {
        let _alone = alone(&self.proving).await?;
        let stay = self.let_in(plan, std::slice::from_ref(prober)).await?;
        let key = self.credential_of(prober);
        let proving = self.proving_of(plan);
        let outcome = prove_one(&proving, plan, prober.principal(), &key, act)
            .await
            .map_err(unproven)?;
        see_out(stay).await?;
        let said = outcome.found.to_string();
        Ok(match &outcome.found {
            Found::Allowed | Found::NoEffect | Found::Effect(_) => Attempted::Allowed(said),
            Found::Refused => Attempted::Refused(said),
            Found::Unheard | Found::Otherwise(_) | Found::Closed(_) => Attempted::Unclear(said),
        })
    }

    fn proving_of(&self, plan: &Plan) -> Proving {
        Proving {
            endpoint: self.endpoint.clone(),
            controller: self.credential.clone(),
            facts: self.facts(),
            extent: Extent::of(plan),
            at_a_time: AT_A_TIME,
            within: PROVEN_WITHIN,
        }
    }

    fn credential_of(&self, prober: &Prober) -> Credential {
        match prober {
            Prober::Controller => self.credential.clone(),
            Prober::Guest { seed, .. } => Credential::NKeySeed(seed.clone()),
        }
    }

    /// Makes the guests among them users of the server, until what is returned is dropped, and sees that what the server
    /// was brought to is this plan with them.
    async fn let_in(&self, plan: &Plan, probers: &[Prober]) -> Result<Option<Stay>, UnprovenError> {
        let keys: BTreeMap<_, _> = probers
            .iter()
            .filter_map(|prober| match prober {
                Prober::Controller => None,
                Prober::Guest { principal, key, .. } => Some((key.clone(), principal.clone())),
            })
            .collect();
        let stay = if keys.is_empty() {
            None
        } else if matches!(self.authority, Authority::None) {
            let why = "its users carry their grants with them, and the controller can make none";
            return Err(UnprovenError::CannotAsk(why.to_owned()));
        } else {
            let stay = Stay::begin(&self.guests, &self.disturbed, keys.clone());
            let known = timeout(KNOWN_WITHIN, stay.known()).await;
            known.map_err(|_| not_told("was not told of the users made for it"))?;
            Some(stay)
        };
        let proven = with_probers(plan, &keys).map_err(|_| UnprovenError::Changed)?;
        if self.memory.lock().await.plan.as_ref() != Some(&proven) {
            return Err(UnprovenError::Changed);
        }
        Ok(stay)
    }
}

/// The turn of one proof, in the order they were asked for; what is asked of one act is soon over.
async fn alone(proving: &Mutex<()>) -> Result<MutexGuard<'_, ()>, UnprovenError> {
    let turn = timeout(TURN_WITHIN, proving.lock()).await;
    turn.map_err(|_| UnprovenError::UnderWay)
}

/// Waits until the guests cannot connect any more.
async fn see_out(stay: Option<Stay>) -> Result<(), UnprovenError> {
    let Some(stay) = stay else { return Ok(()) };
    let gone = timeout(KNOWN_WITHIN, stay.end()).await;
    gone.map_err(|_| {
        not_told("was not told yet that the users made for the proof are none any more")
    })
}

fn not_told(what: &str) -> UnprovenError {
    let why = format!(
        "in {} s the server {what}; `meshctl doctor` says what keeps the controller from it",
        KNOWN_WITHIN.as_secs()
    );
    BusError::Away(why).into()
}

fn differences(proof: &Proof, principal: &Principal) -> Vec<String> {
    let differences = proof.differences.iter();
    differences
        .filter(|difference| difference.principal == *principal)
        .map(ToString::to_string)
        .collect()
}

fn unproven(error: ProveError) -> UnprovenError {
    match error {
        ProveError::Watching(error) => error.into(),
        other => UnprovenError::CannotAsk(other.to_string()),
    }
}

/// Principals connected at once: enough that none waits for another's round trips.
const AT_A_TIME: usize = 8;
/// How long a proof may take in all.
const PROVEN_WITHIN: Duration = Duration::from_secs(90);
/// For so long the controller may need to write users.
const KNOWN_WITHIN: Duration = Duration::from_secs(30);
/// How long a proof waits for the one before it.
const TURN_WITHIN: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use tokio::time::{Instant, sleep};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_proof_waits_its_turn_and_is_told_when_that_takes_too_long() {
        let proving = Mutex::new(());
        let held_for = async |time: Duration| {
            let held = proving.lock().await;
            sleep(time).await;
            drop(held);
        };
        let soon = TURN_WITHIN / 2;
        let begun = Instant::now();
        let ((), turn) = tokio::join!(held_for(soon), alone(&proving));
        assert!(turn.is_ok());
        assert_eq!(begun.elapsed(), soon);
        drop(turn);

        let ((), turn) = tokio::join!(held_for(TURN_WITHIN * 2), alone(&proving));
        assert_eq!(turn.err(), Some(UnprovenError::UnderWay));
    }
}
