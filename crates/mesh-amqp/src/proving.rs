//! A proof on the broker of a running controller: guests are users of it for as long as it takes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use mesh_bus::{Attempted, BusError, Prober as As, Proven, UnprovenError};
use mesh_derive::Plan;
use mesh_derive::proof::{Act, with_probers};
use mesh_derive::topology::proof::attempt_of;
use mesh_derive::topology::{Topology, topology};
use mesh_model::{Principal, PublicKey};
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::timeout;

use crate::controller::AmqpController;
use crate::credential::{Credential, password_hash};
use crate::definitions::Document;
use crate::guests::Stay;
use crate::line::Login;
use crate::proof::{Found, Prober, Subject, Word, prove};

/// Everybody who is let in, and what is expected of them.
struct Entered {
    stay: Stay,
    topology: Arc<Topology>,
    subjects: Vec<Subject>,
}

impl AmqpController {
    /// Proves the plan of these principals.
    pub(crate) async fn prove_all(
        &self,
        plan: &Plan,
        probers: &[As],
    ) -> Result<Vec<Proven>, UnprovenError> {
        let guests = self.epoch.guests();
        let _alone = alone(&guests.turn).await?;
        let entered = self.let_in(plan, probers).await?;
        let proving = prove(plan, &entered.topology, entered.subjects, AT_A_TIME);
        let proven = timeout(PROVEN_WITHIN, proving).await.map_err(|_| {
            UnprovenError::CannotAsk(format!(
                "the proof of {} principals was not through within {} s; ask of fewer at once",
                probers.len(),
                PROVEN_WITHIN.as_secs()
            ))
        })?;
        entered.stay.end().await?;
        Ok(proven)
    }

    /// Tries one act as one principal.
    pub(crate) async fn attempt_one(
        &self,
        plan: &Plan,
        prober: &As,
        act: &Act,
    ) -> Result<Attempted, UnprovenError> {
        let Some(attempt) = attempt_of(plan, act) else {
            let why = format!(
                "{act} is nothing on RabbitMQ, where queues are read whole and whoever is delivered a message may settle it"
            );
            return Err(UnprovenError::CannotAsk(why));
        };
        let guests = self.epoch.guests();
        let _alone = alone(&guests.turn).await?;
        let entered = self.let_in(plan, std::slice::from_ref(prober)).await?;
        let mut found = Found::Untried("nobody was let in".to_owned());
        for subject in entered.subjects {
            let mut prober = Prober::new(subject.line, &entered.topology.broker.users);
            found = prober.attempt(&attempt).await;
            prober.leave().await;
        }
        entered.stay.end().await?;
        let said = format!("{attempt} {found}");
        Ok(match found {
            Found::Allowed | Found::Held => Attempted::Allowed(said),
            Found::Refused => Attempted::Refused(said),
            Found::Missing | Found::Otherwise(_) | Found::Untried(_) => Attempted::Unclear(said),
        })
    }

    /// Makes the guests among them users of the broker, until what is returned is dropped, and sees that what the broker was
    /// brought to is this plan. A guest has the rows of the user it stands for; a module, whose instances alone have users,
    /// those it would have.
    async fn let_in(&self, plan: &Plan, probers: &[As]) -> Result<Entered, UnprovenError> {
        let Some(own) = self.epoch.login() else {
            return Err(BusError::Away("this controller has not taken over".to_owned()).into());
        };
        let names = self.epoch.names();
        let with = with_probers(plan, &keys_of(probers)).map_err(|_| UnprovenError::Changed)?;
        // Nobody asserts meanwhile: what is read is what was asserted last, or somebody else changed it.
        let memory = self.memory.lock().await;
        let found = self.found().await?;
        let laid = |plan: &Plan| topology(plan, &self.bounds, &self.broker(found.version));
        let (derived, laid_with) = (laid(plan), laid(&with));
        let mut hashes = self.epoch.hash();
        let users = plan.users.iter();
        hashes.extend(users.filter_map(|(key, who)| Some((who.clone(), password_hash(key)?))));
        let wanted = Document::of(&derived, &hashes, &names);
        if !memory.is(&wanted) {
            return Err(UnprovenError::Changed);
        }
        drop(memory);
        let would_be = Document::of(&laid_with, &BTreeMap::new(), &names);
        let word = Word {
            wanted: &wanted,
            found: &found.document,
        };
        let (stay, subjects) = self.stand_for(probers, &own, &derived, (&word, &would_be))?;
        stay.let_in().await?;
        Ok(Entered {
            stay,
            topology: Arc::new(laid_with),
            subjects,
        })
    }

    /// A guest for each of them, with the rows of whom it stands for.
    fn stand_for(
        &self,
        probers: &[As],
        own: &Login,
        derived: &Topology,
        (word, would_be): (&Word<'_>, &Document),
    ) -> Result<(Stay, Vec<Subject>), UnprovenError> {
        let names = self.epoch.names();
        let mut stay = Stay::begin(
            &self.epoch.guests(),
            &self.management,
            &self.disturbed,
            &names.users,
        )?;
        let mut subjects = Vec::new();
        for prober in probers {
            let principal = prober.principal().clone();
            let user = names.of(&principal).unwrap_or_default();
            let rights = derived.users.get(&principal);
            let said = rights.map(|rights| word.differences(&principal, &user, rights));
            let login = match prober {
                As::Controller => own.clone(),
                As::Guest { seed, .. } => {
                    let rows = if rights.is_some() {
                        word.found.of_user(&user)
                    } else {
                        would_be.of_user(&user)
                    };
                    let credential = Credential::of_seed(seed);
                    let hash = password_hash(&credential.public()).unwrap_or_default();
                    let user = stay.add(&rows, &hash);
                    Login { user, credential }
                }
            };
            subjects.push(Subject {
                principal,
                line: self.consuming.beside(login),
                said: said.unwrap_or_default(),
            });
        }
        Ok((stay, subjects))
    }
}

/// The keys of the guests among them.
fn keys_of(probers: &[As]) -> BTreeMap<PublicKey, Principal> {
    let guests = probers.iter().filter_map(|prober| match prober {
        As::Controller => None,
        As::Guest {
            principal, seed, ..
        } => Some((Credential::of_seed(seed).public(), principal.clone())),
    });
    guests.collect()
}

/// The turn of one proof, in the order they were asked for; what is asked of one act is soon over.
async fn alone(turn: &Mutex<()>) -> Result<MutexGuard<'_, ()>, UnprovenError> {
    let turn = timeout(TURN_WITHIN, turn.lock()).await;
    turn.map_err(|_| UnprovenError::UnderWay)
}

/// Principals connected at once.
const AT_A_TIME: usize = 8;
/// How long a proof may take in all.
const PROVEN_WITHIN: Duration = Duration::from_secs(90);
/// How long a proof waits for the one before it.
const TURN_WITHIN: Duration = Duration::from_secs(10);
