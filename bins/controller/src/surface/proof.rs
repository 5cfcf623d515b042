//! Proving on the live bus: keys for the time it takes, and what came of it in the surface's words.

use std::collections::{BTreeMap, BTreeSet};

use mesh_api::{
    ApiError, BrokerAnswer, Caller, CanAnswer, CanRequest, CanVerb, Code, Verified,
    VerifiedPrincipal, VerifyRequest,
};
use mesh_auth::keys::UserKey;
use mesh_bus::{Attempted, ControllerBus, Prober, Proven, UnprovenError};
use mesh_derive::Plan;
use mesh_derive::proof::Act;
use mesh_model::{BusKind, Filter, Grant, Principal, PublicKey, Revision, Subject, one_line};

use super::{Surface, failed, gone};

impl<B: ControllerBus> Surface<B> {
    /// Tries everything, as each of these or as everybody.
    pub(super) async fn prove(
        &self,
        request: VerifyRequest,
        who: &Caller,
    ) -> Result<Verified, ApiError> {
        let (revision, plan) = self.derived().await?;
        let principals = asked(&plan.grants, &request.principals)?;
        let mut rows = Vec::new();
        let mut why_not = None;
        for (bus, principals) in on_each(&plan, principals) {
            let probers = principals
                .iter()
                .map(|principal| prober(principal))
                .collect::<Result<Vec<_>, _>>()?;
            tracing::info!(%who, principals = probers.len(), "proves the bus");
            match self.shared.bus.prove(&plan, &probers).await {
                Ok(proven) => {
                    let whom: Vec<&Principal> = proven.iter().map(|it| &it.principal).collect();
                    let on = placed(&plan, bus, &whom);
                    rows.extend(proven.into_iter().zip(on).map(|(it, on)| row(it, on)));
                }
                // Of two, the other may be one that can be asked.
                Err(UnprovenError::CannotAsk(why)) if !plan.parts.is_empty() => {
                    let unasked = principals.into_iter();
                    rows.extend(unasked.map(|principal| unasked_row(principal, bus, &why)));
                    why_not = Some(why);
                }
                Err(error) => return Err(unproven(error)),
            }
        }
        if let Some(why) = why_not.filter(|_| rows.iter().all(|row| row.not_asked.is_some())) {
            return Err(unproven(UnprovenError::CannotAsk(why)));
        }
        self.is_still(revision, &plan).await?;
        rows.sort_by(|a, b| a.principal.cmp(&b.principal));
        Ok(Verified {
            revision,
            items: rows,
        })
    }

    /// Asks the plan, then the bus.
    pub(super) async fn may(
        &self,
        request: CanRequest,
        who: &Caller,
    ) -> Result<CanAnswer, ApiError> {
        let (revision, plan) = self.derived().await?;
        let grant = granted(&plan.grants, &request.principal)?;
        let act = act(&request)?;
        let by = entry(grant, &act);
        let prober = prober(&request.principal)?;
        let asks = one_line(&act.to_string());
        tracing::info!(%who, principal = %request.principal, act = asks, "asks the bus");
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
            bus: bus_of(&plan, &request.principal),
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

/// Each of those named once, or everybody.
fn asked<'a>(
    grants: &'a BTreeMap<Principal, Grant>,
    named: &'a [Principal],
) -> Result<BTreeSet<&'a Principal>, ApiError> {
    if named.is_empty() {
        return Ok(grants.keys().collect());
    }
    if named.len() > grants.len() {
        let message = format!(
            "{} principals are named, and this mesh has {}; name each once, or none to prove everybody",
            named.len(),
            grants.len()
        );
        return Err(ApiError::new(Code::Invalid, message));
    }
    for principal in named {
        granted(grants, principal)?;
    }
    Ok(named.iter().collect())
}

fn granted<'a>(
    grants: &'a BTreeMap<Principal, Grant>,
    principal: &Principal,
) -> Result<&'a Grant, ApiError> {
    grants.get(principal).ok_or_else(|| {
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

/// Bytes of a subject that is asked of: a server ends a connection that sends a line longer than its limit.
const SUBJECT_LIMIT: usize = 1024;

fn act(request: &CanRequest) -> Result<Act, ApiError> {
    let invalid = |message: String| ApiError::new(Code::Invalid, message);
    let bytes = request.subject.as_str().len();
    if bytes > SUBJECT_LIMIT {
        let message = format!(
            "the subject has {bytes} bytes, and {SUBJECT_LIMIT} is the most that is asked of; ask of a shorter one"
        );
        return Err(invalid(message));
    }
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

/// On which of two buses somebody is; nothing where there is one, and for who is on both: the controller, and what the
/// instances of a module have in common.
fn bus_of(plan: &Plan, principal: &Principal) -> Option<BusKind> {
    let on = plan.parts.iter();
    let mut on = on.filter(|(_, part)| part.grants.contains_key(principal));
    match (on.next(), on.next()) {
        (Some((bus, _)), None) => Some(*bus),
        _ => None,
    }
}

/// These by where each is asked.
fn on_each<'a>(
    plan: &Plan,
    principals: BTreeSet<&'a Principal>,
) -> BTreeMap<Option<BusKind>, Vec<&'a Principal>> {
    let mut on_each: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for principal in principals {
        let bus = bus_of(plan, principal);
        on_each.entry(bus).or_default().push(principal);
    }
    on_each
}

/// On which bus each of these was proven, in this order. Who is on both was proven on both, on one after the other.
fn placed(plan: &Plan, bus: Option<BusKind>, proven: &[&Principal]) -> Vec<Option<BusKind>> {
    let mut times: BTreeMap<&Principal, usize> = BTreeMap::new();
    let on = proven.iter().map(|principal| {
        let nth = times.entry(principal).or_default();
        let on = bus.or_else(|| plan.parts.keys().nth(*nth).copied());
        *nth += 1;
        on
    });
    on.collect()
}

fn unasked_row(principal: &Principal, bus: Option<BusKind>, why: &str) -> VerifiedPrincipal {
    VerifiedPrincipal {
        principal: principal.clone(),
        allowed: 0,
        refused: 0,
        injections: 0,
        held: 0,
        untried: 0,
        differences: Vec::new(),
        bus,
        not_asked: Some(why.to_owned()),
    }
}

fn row(proven: Proven, bus: Option<BusKind>) -> VerifiedPrincipal {
    VerifiedPrincipal {
        principal: proven.principal,
        allowed: proven.allowed,
        refused: proven.refused,
        injections: proven.injections,
        held: proven.held,
        untried: proven.untried,
        differences: proven.differences,
        bus,
        not_asked: None,
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

    #[test]
    fn a_principal_named_twice_is_proven_once_and_more_names_than_principals_are_refused() {
        let principal = |text: &str| text.parse::<Principal>().unwrap();
        let grants: BTreeMap<_, _> = ["controller", "module/shop", "module/till"]
            .map(|text| (principal(text), Grant::default()))
            .into();
        let shop = principal("module/shop");
        let (once, unknown) = ([&shop].into(), [shop.clone(), principal("module/none")]);
        for (named, expected) in [
            (&vec![shop.clone(); 3][..], Ok(once)),
            (&vec![shop.clone(); 4], Err(Code::Invalid)),
            (&[], Ok(grants.keys().collect())),
            (&unknown, Err(Code::NotFound)),
        ] {
            let asked = asked(&grants, named).map_err(|error| error.code);
            assert_eq!(asked, expected, "{named:?}");
        }
    }

    #[test]
    fn who_is_on_one_of_two_buses_is_asked_there_and_who_is_on_both_on_each() {
        let principal = |text: &str| text.parse::<Principal>().unwrap();
        let facts = crate::managed::facts();
        let nothing = mesh_model::Records::new("home".parse().unwrap(), facts);
        let nothing = mesh_derive::derive(&nothing, &mesh_derive::Bounds::default());
        let of = |names: &[&str]| {
            let granted = |name: &&str| (principal(name), Grant::default());
            let mut plan = nothing.clone();
            plan.grants = names.iter().map(granted).collect();
            plan
        };
        let parts = [
            (BusKind::Nats, of(&["controller", "node/a"])),
            (BusKind::Amqp, of(&["controller", "node/b"])),
        ];
        let mut plan = of(&["controller", "node/a", "node/b"]);
        plan.parts = parts.into();
        let everybody = plan.grants.keys().collect();
        let [controller, a, b] = ["controller", "node/a", "node/b"].map(principal);
        let expected = [
            (None, vec![&controller]),
            (Some(BusKind::Nats), vec![&a]),
            (Some(BusKind::Amqp), vec![&b]),
        ];
        assert_eq!(on_each(&plan, everybody), expected.into());
        let twice = [&controller, &controller];
        assert_eq!(placed(&plan, None, &twice), BusKind::ALL.map(Some));
        let nats = Some(BusKind::Nats);
        assert_eq!(placed(&plan, nats, &[&a, &b]), [nats, nats]);
        assert_eq!(placed(&of(&["controller"]), None, &[&controller]), [None]);
    }

    #[test]
    fn a_subject_longer_than_is_asked_of_is_refused_with_the_bound() {
        for (verb, bytes, refused) in [
            (CanVerb::Publish, SUBJECT_LIMIT, false),
            (CanVerb::Publish, SUBJECT_LIMIT + 1, true),
            (CanVerb::Subscribe, SUBJECT_LIMIT + 1, true),
        ] {
            let act = act(&CanRequest {
                principal: Principal::Controller,
                verb,
                subject: "a".repeat(bytes).parse().unwrap(),
                queue: None,
            });
            assert_eq!(act.is_err(), refused, "{bytes}");
            if let Err(error) = act {
                assert_eq!(error.code, Code::Invalid);
                assert!(error.message.contains("1024"), "{}", error.message);
            }
        }
    }
}
