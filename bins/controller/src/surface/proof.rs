//! Proving on the live bus: keys for the time it takes, and what came of it in the surface's words.

use mesh_api::{
    ApiError, BrokerAnswer, Caller, CanAnswer, CanRequest, CanVerb, Code, Verified,
    VerifiedPrincipal, VerifyRequest,
};
use mesh_auth::keys::UserKey;
use mesh_bus::{Attempted, ControllerBus, Prober, Proven, UnprovenError};
use mesh_derive::Plan;
use mesh_derive::proof::Act;
use mesh_model::{Filter, Grant, Principal, PublicKey, Revision, Subject};

use super::{Surface, failed, gone};

impl<B: ControllerBus> Surface<B> {
    /// Tries everything, as each of these or as everybody.
    pub(super) async fn prove(
        &self,
        request: VerifyRequest,
        who: &Caller,
    ) -> Result<Verified, ApiError> {
        let (revision, plan) = self.derived().await?;
        let principals: Vec<&Principal> = if request.principals.is_empty() {
            plan.grants.keys().collect()
        } else {
            request.principals.iter().collect()
        };
        for principal in &principals {
            granted(&plan, principal)?;
        }
        let probers = principals
            .iter()
            .map(|principal| prober(principal))
            .collect::<Result<Vec<_>, _>>()?;
        tracing::info!(%who, principals = probers.len(), "proves the bus");
        let proven = self.shared.bus.prove(&plan, &probers).await;
        let proven = proven.map_err(unproven)?;
        self.is_still(revision, &plan).await?;
        Ok(Verified {
            revision,
            items: proven.into_iter().map(row).collect(),
        })
    }

    /// Asks the plan, then the bus.
    pub(super) async fn may(
        &self,
        request: CanRequest,
        who: &Caller,
    ) -> Result<CanAnswer, ApiError> {
        let (revision, plan) = self.derived().await?;
        let grant = granted(&plan, &request.principal)?;
        let act = act(&request)?;
        let by = entry(grant, &act);
        let prober = prober(&request.principal)?;
        tracing::info!(%who, principal = %request.principal, %act, "asks the bus");
        let (broker, said) = match self.shared.bus.attempt(&plan, &prober, &act).await {
            Ok(Attempted::Allowed(said)) => (BrokerAnswer::Yes, said),
            Ok(Attempted::Refused(said)) => (BrokerAnswer::No, said),
            Ok(Attempted::Unclear(said)) => (BrokerAnswer::Unclear, said),
            Err(UnprovenError::CannotAsk(why)) => (BrokerAnswer::NotAsked, why),
            Err(error) => return Err(unproven(error)),
        };
        self.is_still(revision, &plan).await?;
        Ok(CanAnswer {
            derived: by.is_some(),
            by,
            broker,
            said,
        })
    }

    async fn derived(&self) -> Result<(Revision, Plan), ApiError> {
        let look = self
            .shared
            .handle
            .look(|controller, _| (controller.records().revision, controller.plan()));
        look.await.map_err(gone)
    }

    /// What was proven is what is derived now. A token that expires changes a plan without a revision.
    async fn is_still(&self, revision: Revision, plan: &Plan) -> Result<(), ApiError> {
        if self.derived().await? == (revision, plan.clone()) {
            return Ok(());
        }
        Err(unproven(UnprovenError::Changed))
    }
}

fn granted<'a>(plan: &'a Plan, principal: &Principal) -> Result<&'a Grant, ApiError> {
    plan.grants.get(principal).ok_or_else(|| {
        let message = format!(
            "{principal} has no authority in this mesh; `meshctl derive DIR` lists who has any in a directory's"
        );
        ApiError::new(Code::NotFound, message)
    })
}

/// A key nobody else has, thrown away with the answer.
fn prober(principal: &Principal) -> Result<Prober, ApiError> {
    if *principal == Principal::Controller {
        return Ok(Prober::Controller);
    }
    let key = UserKey::generate().map_err(failed)?;
    Ok(Prober::Guest {
        principal: principal.clone(),
        key: PublicKey::new(key.public().as_str()).map_err(failed)?,
        seed: key.seed().expose().to_owned(),
    })
}

fn act(request: &CanRequest) -> Result<Act, ApiError> {
    let invalid = |message: String| ApiError::new(Code::Invalid, message);
    match (request.verb, &request.queue) {
        (CanVerb::Publish, Some(_)) => Err(invalid("nobody publishes in a group".to_owned())),
        (CanVerb::Publish, None) => Subject::new(request.subject.as_str())
            .map(Act::Publish)
            .map_err(|error| invalid(format!("what is published on is one subject: {error}"))),
        (CanVerb::Subscribe, queue) => Ok(Act::Subscribe {
            filter: request.subject.clone(),
            queue: queue.clone(),
        }),
    }
}

/// The entry that allows an act.
fn entry(grant: &Grant, act: &Act) -> Option<String> {
    match act {
        Act::Publish(subject) => {
            let mut publish = grant.publish.iter();
            publish
                .find(|entry| entry.matches(subject))
                .map(Filter::to_string)
        }
        Act::Subscribe { filter, queue } => {
            let alone = grant
                .subscribe
                .iter()
                .find(|entry| filter.is_subset_of(entry));
            let in_group = || {
                grant.queues.iter().find(|entry| {
                    queue.as_deref() == Some(entry.queue.as_str())
                        && filter.is_subset_of(&entry.filter)
                })
            };
            alone.map(Filter::to_string).or_else(|| {
                in_group().map(|entry| format!("{} in group {}", entry.filter, entry.queue))
            })
        }
        Act::Connect | Act::Inject { .. } => None,
    }
}

fn row(proven: Proven) -> VerifiedPrincipal {
    VerifiedPrincipal {
        principal: proven.principal,
        allowed: proven.allowed,
        refused: proven.refused,
        injections: proven.injections,
        untried: proven.untried,
        differences: proven.differences,
    }
}

fn unproven(error: UnprovenError) -> ApiError {
    let code = match &error {
        UnprovenError::UnderWay | UnprovenError::Changed => Code::Conflict,
        UnprovenError::Bus(error) if error.is_passing() => Code::Unavailable,
        UnprovenError::Bus(_) | UnprovenError::CannotAsk(_) => Code::Failed,
    };
    ApiError::new(code, error.to_string())
}

#[cfg(test)]
mod tests {
    use mesh_model::QueueSubscription;

    use super::*;

    #[test]
    fn the_entry_named_is_one_the_grant_goes_by() {
        let grant = Grant {
            publish: ["a.*".parse().unwrap()].into(),
            subscribe: ["b.>".parse().unwrap()].into(),
            queues: [QueueSubscription {
                filter: "c".parse().unwrap(),
                queue: "g".parse().unwrap(),
            }]
            .into(),
        };
        let subscribe = |filter: &str, queue: Option<&str>| Act::Subscribe {
            filter: filter.parse().unwrap(),
            queue: queue.map(|queue| queue.parse().unwrap()),
        };
        for (act, expected) in [
            (Act::Publish("a.x".parse().unwrap()), Some("a.*")),
            (Act::Publish("a".parse().unwrap()), None),
            (subscribe("b.x", None), Some("b.>")),
            (subscribe("c", Some("g")), Some("c in group g")),
            (subscribe("c", None), None),
        ] {
            let entry = entry(&grant, &act);
            assert_eq!(entry.as_deref(), expected, "{act}");
            let allowed = match &act {
                Act::Publish(subject) => grant.publishes(subject),
                Act::Subscribe { filter, queue } => grant.subscribes(filter, queue.as_deref()),
                Act::Connect | Act::Inject { .. } => false,
            };
            assert_eq!(entry.is_some(), allowed, "{act}");
        }
    }
}
