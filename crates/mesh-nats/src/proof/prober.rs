//! One principal's attempts, on one connection: each is followed by a `PING`, so that a refusal stands between the answers
//! of its own act and of the one before.

use std::time::Duration;

use mesh_bus::BusError;
use mesh_derive::Plan;
use mesh_derive::proof::{
    Act, BROKEN_JSON, Evidence, Expected, Manner, NO_STREAM, Probe, manner, may_be_tried,
};
use mesh_derive::subject::{delivered, inbox, inbox_prefix};
use mesh_model::{ConsumerKind, Filter, Principal, Subject};
use tokio::time::{Instant, timeout, timeout_at};

use super::Proving;
use super::answer::found;
use super::found::{Found, Text, Untried, Verdict, Watched, is_answered};
use super::reading::Message;
use super::wire::{Said, Wire};
use crate::ack::WORKING;
use crate::connect::Credential;
use crate::denial::Denial;

/// Attempts everything, in the order given, and says of each what came of it. `mark` is unlike that of any other.
pub(super) async fn attempt(
    proving: &Proving,
    plan: &Plan,
    (principal, key): (&Principal, &Credential),
    asked: &[Probe],
    mark: &str,
) -> Vec<Verdict> {
    let mut wire = match Wire::open(&proving.endpoint, key).await {
        Ok(wire) => wire,
        Err(error) => return not_connected(asked, &error),
    };
    let mut prober = Prober {
        plan,
        asked,
        mark,
        inbox: inbox_prefix(principal).to_string(),
        has_inbox: plan
            .grants
            .get(principal)
            .is_some_and(|grant| grant.subscribes(&inbox(principal), None)),
        hears: false,
        seen: asked.iter().map(|_| Seen::default()).collect(),
        done: 0,
    };
    let ended = prober.run(&mut wire).await.err();
    prober.verdicts(ended)
}

/// What is true of everything where there is no connection: that, and no more.
fn not_connected(asked: &[Probe], error: &BusError) -> Vec<Verdict> {
    let found = match error {
        BusError::Refused { .. } => Found::Refused,
        error => Found::Closed(Text::of(&error.to_string())),
    };
    let first = asked.iter().take(1).map(|_| Verdict::Found(found.clone()));
    let rest = asked
        .iter()
        .skip(1)
        .map(|_| Verdict::Untried(Untried::Ended));
    first.chain(rest).collect()
}

struct Prober<'a> {
    plan: &'a Plan,
    asked: &'a [Probe],
    mark: &'a str,
    /// What its inbox begins with.
    inbox: String,
    /// Whether it may listen there, by the plan.
    has_inbox: bool,
    /// Whether it does.
    hears: bool,
    seen: Vec<Seen>,
    /// How many the server has dealt with.
    done: usize,
}

/// What the server said of one act.
#[derive(Debug, Clone, Default)]
struct Seen {
    refusals: Vec<String>,
    answer: Option<Message>,
    untried: Option<Untried>,
}

impl Prober<'_> {
    async fn run(&mut self, wire: &mut Wire) -> Result<(), BusError> {
        timed(self.listen(wire)).await?;
        for at in (0..self.asked.len()).step_by(WINDOW) {
            timed(self.window(wire, at)).await?;
        }
        let until = Instant::now() + ANSWERED_WITHIN;
        while self.awaits_answers() {
            match timeout_at(until, wire.next()).await {
                Ok(said) => self.hear(said?),
                Err(_late) => break,
            }
        }
        Ok(())
    }

    /// Listens for the answers, where the plan lets it. Whether the server does is one of the acts; here it is only looked
    /// at whether it can be relied upon.
    async fn listen(&mut self, wire: &mut Wire) -> Result<(), BusError> {
        let (inbox, mark) = (&self.inbox, self.mark);
        if !self.has_inbox {
            return Ok(());
        }
        wire.subscribe(&format!("{inbox}.{mark}.>"), None, HELD)?;
        wire.subscribe(&format!("{inbox}.{OWN}"), None, OWN_HELD)?;
        wire.ping();
        self.hears = true;
        loop {
            match wire.next().await? {
                Said::Pong => return Ok(()),
                Said::Refusal(_) => self.hears = false,
                Said::Message(_) => {}
            }
        }
    }

    async fn window(&mut self, wire: &mut Wire, from: usize) -> Result<(), BusError> {
        let to = self.asked.len().min(from + WINDOW);
        for at in from..to {
            self.put(wire, at)?;
            wire.ping();
        }
        while self.done < to {
            let said = wire.next().await?;
            self.hear(said);
        }
        Ok(())
    }

    fn put(&mut self, wire: &mut Wire, at: usize) -> Result<(), BusError> {
        let asked = self.asked;
        let Some(probe) = asked.get(at) else {
            return Ok(());
        };
        if let Some(why) = self.declines(probe) {
            if let Some(seen) = self.seen.get_mut(at) {
                seen.untried = Some(why);
            }
            return Ok(());
        }
        match &probe.act {
            Act::Connect => Ok(()),
            Act::Subscribe { filter, queue } => {
                let (filter, queue) = (filter.as_str(), queue.as_deref());
                if self.hears {
                    // A server looks whether it is allowed, and then that there is one of this number already: nothing
                    // is subscribed. A subscription of its own, however short, would take what waits to be delivered.
                    return wire.subscribe(filter, queue, HELD);
                }
                wire.subscribe(filter, queue, FIRST + at)?;
                wire.unsubscribe(FIRST + at)
            }
            Act::Publish(subject) => {
                let reply = self
                    .hears
                    .then(|| format!("{}.{}.{at}", self.inbox, self.mark));
                self.publish(wire, subject, reply.as_deref(), at)
            }
            Act::Inject { subject, reply } => {
                let reply = format!("{reply}-{}", self.mark_of(at));
                self.publish(wire, subject, Some(&reply), at)
            }
        }
    }

    /// Why an act is not to be tried, where it is not: by itself, or without an inbox that hears.
    fn declines(&self, probe: &Probe) -> Option<Untried> {
        if !may_be_tried(self.plan, &probe.act) {
            return Some(Untried::Unforeseen);
        }
        match (&probe.act, &probe.expected) {
            _ if self.hears => None,
            (Act::Subscribe { filter, .. }, _) if self.may_take(filter) => Some(Untried::Delivered),
            (Act::Inject { .. }, Expected::NoEffect) => Some(Untried::Unanswered),
            _ => None,
        }
    }

    fn publish(
        &self,
        wire: &mut Wire,
        subject: &Subject,
        reply: Option<&str>,
        at: usize,
    ) -> Result<(), BusError> {
        let mark = self.mark_of(at);
        let of_none = (EXPECTED_STREAM, NO_STREAM);
        let on = subject.as_str();
        match manner(self.plan, subject) {
            Manner::Never => Ok(()),
            Manner::Settling(_) => wire.publish(on, reply, &[], WORKING),
            Manner::Api => wire.publish(on, reply, &[], BROKEN_JSON.as_bytes()),
            // A stream that is nobody's, too, would store it.
            Manner::Stored(_) | Manner::Heartbeat | Manner::Plain => {
                wire.publish(on, reply, &[of_none, (MARK, &mark)], b"")
            }
        }
    }

    /// Whether a subscription, if the server wrongly allowed it, could take what a consumer delivers.
    fn may_take(&self, filter: &Filter) -> bool {
        let of_plan = |kind: &ConsumerKind| match kind {
            ConsumerKind::Push { deliver, .. } => filter.matches(deliver),
            ConsumerKind::Pull => false,
        };
        let mut consumers = self.plan.consumers.values();
        filter.overlaps(&delivered()) || consumers.any(|spec| of_plan(&spec.kind))
    }

    fn mark_of(&self, at: usize) -> String {
        format!("{}-{at}", self.mark)
    }

    fn hear(&mut self, said: Said) {
        match said {
            Said::Pong => self.done += 1,
            Said::Refusal(text) => {
                if let Some(seen) = self.seen.get_mut(self.done)
                    && seen.refusals.len() < REFUSALS
                {
                    seen.refusals.push(text);
                }
            }
            Said::Message(message) => self.message(message),
        }
    }

    fn message(&mut self, message: Message) {
        if message.subject == format!("{}.{OWN}", self.inbox) {
            let own = self.asked.iter().position(|probe| {
                probe.expected == Expected::Allowed(Evidence::HeardBySelf)
                    && matches!(&probe.act, Act::Publish(subject) if subject.as_str() == message.subject)
            });
            self.answered(own, message);
            return;
        }
        let prefix = format!("{}.{}.", self.inbox, self.mark);
        let at = message.subject.strip_prefix(&prefix);
        self.answered(at.and_then(|at| at.parse().ok()), message);
    }

    fn answered(&mut self, at: Option<usize>, message: Message) {
        if let Some(seen) = at.and_then(|at| self.seen.get_mut(at)) {
            seen.answer.get_or_insert(message);
        }
    }

    fn awaits_answers(&self) -> bool {
        let mut each = self.asked.iter().zip(&self.seen);
        self.hears
            && each.any(|(probe, seen)| {
                matches!(&probe.expected, Expected::Allowed(by) if is_answered(by))
                    && seen.answer.is_none()
                    && seen.untried.is_none()
                    && seen.refusals.is_empty()
            })
    }

    /// Of each act what came of it; of the one at which the connection ended, that.
    fn verdicts(self, ended: Option<BusError>) -> Vec<Verdict> {
        // When everything was attempted and answers were awaited, it is the last that was cut short.
        let cut = ended.map(|why| (self.done.min(self.asked.len().saturating_sub(1)), why));
        let each = self.asked.iter().zip(&self.seen).enumerate();
        each.map(|(at, (probe, seen))| match &cut {
            Some((end, why)) if at == *end => {
                Verdict::Found(Found::Closed(Text::of(&why.to_string())))
            }
            Some((end, _)) if at > *end => Verdict::Untried(Untried::Ended),
            _ => self.verdict(at, probe, seen),
        })
        .collect()
    }

    /// Whether a reply has had its effect if it has any: what would send it has answered a later message on the same
    /// subject, or nothing answers there, and then the server does at once what it does.
    fn is_dealt_with(&self, at: usize, act: &Act) -> bool {
        let Act::Inject { subject, .. } = act else {
            return true;
        };
        let later = self.asked.iter().zip(&self.seen).skip(at);
        let mut same = later.filter(|(probe, _)| match &probe.act {
            Act::Publish(on) => on == subject,
            _ => false,
        });
        same.any(|(probe, seen)| match &probe.expected {
            Expected::Allowed(by) => !is_answered(by) || seen.answer.is_some(),
            Expected::Refused | Expected::NoEffect => false,
        })
    }

    fn verdict(&self, at: usize, probe: &Probe, seen: &Seen) -> Verdict {
        if let Some(why) = seen.untried {
            return Verdict::Untried(why);
        }
        let mark = || self.mark_of(at);
        Verdict::Found(match (seen.refusals.as_slice(), &probe.expected) {
            ([], Expected::NoEffect) if !self.is_dealt_with(at, &probe.act) => {
                return Verdict::Untried(Untried::Unanswered);
            }
            ([], Expected::NoEffect) => return Verdict::Watched(Watched::Api(mark())),
            ([], Expected::Allowed(Evidence::HeardInMesh)) => {
                return Verdict::Watched(Watched::Heartbeat(mark()));
            }
            ([], Expected::Allowed(by)) if self.hears && is_answered(by) => {
                found(by, seen.answer.as_ref())
            }
            ([], Expected::Allowed(_) | Expected::Refused) => Found::Allowed,
            ([refusal], _) if names(refusal, &probe.act) => Found::Refused,
            (refusals, _) => Found::Otherwise(Text::of(&refusals.join("; "))),
        })
    }
}

/// Whether a refusal is that of this act.
fn names(refusal: &str, act: &Act) -> bool {
    let denial = Denial::parse(refusal);
    match act {
        Act::Publish(subject) | Act::Inject { subject, .. } => {
            denial.is_of_publish(subject.as_str())
        }
        Act::Subscribe { filter, .. } => denial.is_of_subscription(filter.as_str()),
        Act::Connect => false,
    }
}

async fn timed<T>(work: impl Future<Output = Result<T, BusError>>) -> Result<T, BusError> {
    let late = || BusError::Away(format!("no answer within {} s", READ_WITHIN.as_secs()));
    timeout(READ_WITHIN, work)
        .await
        .unwrap_or_else(|_| Err(late()))
}

/// The header by which a stream is told that it is not meant.
const EXPECTED_STREAM: &str = "Nats-Expected-Stream";
/// The header by which a probe is told from everything else.
pub(super) const MARK: &str = "Mesh-Probe";
/// The place in its own inbox where a principal hears itself: what `mesh_derive::proof` names so.
const OWN: &str = "mesh-probe";
/// The subscriptions in which answers arrive, and the first of an attempt.
const HELD: usize = 1;
const OWN_HELD: usize = 2;
const FIRST: usize = 3;
/// How many attempts are under way at once.
const WINDOW: usize = 64;
/// Refusals of one act that are kept.
const REFUSALS: usize = 4;
const READ_WITHIN: Duration = Duration::from_secs(20);
const ANSWERED_WITHIN: Duration = Duration::from_secs(5);
