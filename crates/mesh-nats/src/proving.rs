//! A proof on the bus of a running controller: its keys become users for as long as it takes.

use std::collections::BTreeMap;
use std::time::Duration;

use mesh_bus::{Attempted, BusError, ControllerBus, Prober, Proven};
use mesh_derive::Plan;
use mesh_derive::proof::{Act, Extent};
use mesh_model::Principal;
use tokio::time::timeout;

use crate::authority::Authority;
use crate::connect::Credential;
use crate::controller::NatsController;
use crate::guests::Stay;
use crate::proof::{Found, ProveError, Proving, prove, prove_one};

impl NatsController {
    /// Proves the plan of these principals.
    pub(crate) async fn prove_all(
        &self,
        plan: &Plan,
        probers: &[Prober],
    ) -> Result<Vec<Proven>, BusError> {
        let Ok(_alone) = self.proving.try_lock() else {
            return Err(refused("another is under way; try again when it has ended"));
        };
        let _stay = self.let_in(probers).await?;
        let keys = probers
            .iter()
            .map(|prober| (prober.principal().clone(), self.credential_of(prober)))
            .collect();
        let proof = prove(&self.proving_of(plan), plan, &keys)
            .await
            .map_err(unproven)?;
        let asked = |principal: &Principal| probers.iter().any(|p| p.principal() == principal);
        let proven = proof.principals.iter().filter(|(of, _)| asked(of));
        Ok(proven
            .map(|(principal, tried)| Proven {
                principal: principal.clone(),
                allowed: tried.allowed,
                refused: tried.refused,
                injections: tried.injections,
                untried: tried.untried,
                differences: proof
                    .differences
                    .iter()
                    .filter(|difference| difference.principal == *principal)
                    .map(ToString::to_string)
                    .collect(),
            })
            .collect())
    }

    /// Tries one act as one principal.
    pub(crate) async fn attempt_one(
        &self,
        plan: &Plan,
        prober: &Prober,
        act: &Act,
    ) -> Result<Attempted, BusError> {
        let Ok(_alone) = self.proving.try_lock() else {
            return Err(refused("a proof is under way; try again when it has ended"));
        };
        let _stay = self.let_in(std::slice::from_ref(prober)).await?;
        let key = self.credential_of(prober);
        let proving = self.proving_of(plan);
        let outcome = prove_one(&proving, plan, prober.principal(), &key, act)
            .await
            .map_err(unproven)?;
        let allowed = match &outcome.found {
            Found::Allowed | Found::Unheard | Found::NoEffect | Found::Effect(_) => true,
            Found::Refused => false,
            Found::Otherwise(_) | Found::Closed(_) => {
                return Err(refused(&outcome.found.to_string()));
            }
        };
        Ok(Attempted {
            allowed,
            said: outcome.found.to_string(),
        })
    }

    fn proving_of(&self, plan: &Plan) -> Proving {
        Proving {
            endpoint: self.endpoint.clone(),
            controller: self.credential.clone(),
            facts: self.facts(),
            extent: Extent::of(plan),
            at_a_time: AT_A_TIME,
        }
    }

    fn credential_of(&self, prober: &Prober) -> Credential {
        match prober {
            Prober::Controller => self.credential.clone(),
            Prober::Guest { seed, .. } => Credential::NKeySeed(seed.clone()),
        }
    }

    /// Makes the guests among them users of the server, until what is returned is dropped.
    async fn let_in(&self, probers: &[Prober]) -> Result<Option<Stay>, BusError> {
        let keys: BTreeMap<_, _> = probers
            .iter()
            .filter_map(|prober| match prober {
                Prober::Controller => None,
                Prober::Guest { principal, key, .. } => Some((key.clone(), principal.clone())),
            })
            .collect();
        if keys.is_empty() {
            return Ok(None);
        }
        if matches!(self.authority, Authority::None) {
            return Err(refused(
                "this controller does not write the server's users, so it cannot make any to connect as",
            ));
        }
        let stay = Stay::begin(&self.guests, &self.disturbed, keys);
        if timeout(KNOWN_WITHIN, stay.known()).await.is_err() {
            let why = format!(
                "the server was not brought to know the proof's users within {} s: look at `meshctl doctor`",
                KNOWN_WITHIN.as_secs()
            );
            return Err(BusError::Away(why));
        }
        Ok(Some(stay))
    }
}

fn refused(why: &str) -> BusError {
    BusError::Refused {
        what: "a proof".to_owned(),
        why: why.to_owned(),
    }
}

fn unproven(error: ProveError) -> BusError {
    match error {
        ProveError::Watching(error) => error,
        other => refused(&other.to_string()),
    }
}

/// Principals connected at once: enough that none waits for another's round trips.
const AT_A_TIME: usize = 8;
/// For so long the controller may need to write users.
const KNOWN_WITHIN: Duration = Duration::from_secs(30);
