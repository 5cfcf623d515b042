//! One principal's attempts, on one connection: each is followed by a `PING`, so that a refusal stands between the answers
//! of its own act and of the one before.

use std::time::Duration;

use mesh_bus::BusError;
use mesh_derive::Plan;
use mesh_derive::proof::{Act, Evidence, Expected, Manner, NO_STREAM, Probe, manner};
use mesh_derive::subject::{inbox, inbox_prefix};
use mesh_model::{ConsumerKind, Filter, Principal, Subject};
use serde_json::Value;
use tokio::time::{Instant, timeout, timeout_at};

use super::Proving;
use super::found::{Found, Verdict, Watched, is_answered};
use super::wire::{Message, Said, Wire};
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
        error => Found::Closed(error.to_string()),
    };
    let first = asked.iter().take(1).map(|_| Verdict::Found(found.clone()));
    let rest = asked.iter().skip(1).map(|_| Verdict::Untried);
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
    skipped: bool,
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
        wire.put(format_args!(
            "SUB {inbox}.{mark}.> {HELD}\r\nSUB {inbox}.{OWN} {OWN_HELD}\r\nPING\r\n"
        ));
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
            self.put(wire, at);
            wire.put(format_args!("PING\r\n"));
        }
        while self.done < to {
            let said = wire.next().await?;
            self.hear(said);
        }
        Ok(())
    }

    fn put(&mut self, wire: &mut Wire, at: usize) {
        let asked = self.asked;
        let Some(probe) = asked.get(at) else {
            return;
        };
        match &probe.act {
            Act::Connect => {}
            Act::Subscribe { filter, queue } => {
                let queue = queue.as_deref().map(|queue| format!("{queue} "));
                let queue = queue.unwrap_or_default();
                if self.hears {
                    // A server looks whether it is allowed, and then that there is one of this number already: nothing
                    // is subscribed. A subscription of its own, however short, would take what waits to be delivered.
                    wire.put(format_args!("SUB {filter} {queue}{HELD}\r\n"));
                } else if probe.expected != Expected::Refused && self.is_delivered(filter) {
                    self.skip(at);
                } else {
                    let sid = FIRST + at;
                    wire.put(format_args!("SUB {filter} {queue}{sid}\r\nUNSUB {sid}\r\n"));
                }
            }
            Act::Publish(subject) => {
                let reply = self
                    .hears
                    .then(|| format!("{}.{}.{at}", self.inbox, self.mark));
                self.publish(wire, subject, reply.as_deref(), at);
            }
            Act::Inject { subject, reply } => {
                self.publish(
                    wire,
                    subject,
                    Some(&format!("{reply}-{}", self.mark_of(at))),
                    at,
                );
            }
        }
    }

    fn publish(&self, wire: &mut Wire, subject: &Subject, reply: Option<&str>, at: usize) {
        let mark = self.mark_of(at);
        let marked = (MARK, mark.as_str());
        let on = subject.as_str();
        match manner(self.plan, subject) {
            Manner::Stored(_) => {
                wire.publish(on, reply, &[(EXPECTED_STREAM, NO_STREAM), marked], "");
            }
            Manner::Settling(_) => wire.publish(on, reply, &[], &String::from_utf8_lossy(WORKING)),
            Manner::Api => wire.publish(on, reply, &[], NO_JSON),
            Manner::Heartbeat | Manner::Plain => wire.publish(on, reply, &[marked], ""),
        }
    }

    /// Whether a consumer of the plan delivers there.
    fn is_delivered(&self, filter: &Filter) -> bool {
        self.plan.consumers.values().any(|spec| match &spec.kind {
            ConsumerKind::Push { deliver, .. } => filter.matches(deliver),
            ConsumerKind::Pull => false,
        })
    }

    fn skip(&mut self, at: usize) {
        if let Some(seen) = self.seen.get_mut(at) {
            seen.skipped = true;
        }
    }

    fn mark_of(&self, at: usize) -> String {
        format!("{}-{at}", self.mark)
    }

    fn hear(&mut self, said: Said) {
        match said {
            Said::Pong => self.done += 1,
            Said::Refusal(text) => {
                if let Some(seen) = self.seen.get_mut(self.done) {
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
                    && seen.refusals.is_empty()
            })
    }

    /// Of each act what came of it; of the one at which the connection ended, that.
    fn verdicts(self, ended: Option<BusError>) -> Vec<Verdict> {
        // When everything was attempted and answers were awaited, it is the last that was cut short.
        let cut = ended.map(|why| (self.done.min(self.asked.len().saturating_sub(1)), why));
        let each = self.asked.iter().zip(&self.seen).enumerate();
        each.map(|(at, (probe, seen))| match &cut {
            Some((end, why)) if at == *end => Verdict::Found(Found::Closed(why.to_string())),
            Some((end, _)) if at > *end => Verdict::Untried,
            _ => self.verdict(at, probe, seen),
        })
        .collect()
    }

    fn verdict(&self, at: usize, probe: &Probe, seen: &Seen) -> Verdict {
        if seen.skipped {
            return Verdict::Untried;
        }
        let mark = || self.mark_of(at);
        Verdict::Found(match (seen.refusals.as_slice(), &probe.expected) {
            ([], Expected::NoEffect) => return Verdict::Watched(Watched::Api(mark())),
            ([], Expected::Allowed(Evidence::HeardInMesh)) => {
                return Verdict::Watched(Watched::Heartbeat(mark()));
            }
            ([], Expected::Allowed(by)) if self.hears && is_answered(by) => {
                answer(by, seen.answer.as_ref())
            }
            ([], Expected::Allowed(_) | Expected::Refused) => Found::Allowed,
            ([refusal], _) if names(refusal, &probe.act) => Found::Refused,
            (refusals, _) => Found::Otherwise(refusals.join("; ")),
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

/// What an answer says of where the message arrived.
fn answer(by: &Evidence, message: Option<&Message>) -> Found {
    let Some(message) = message else {
        return Found::Unheard;
    };
    if message
        .status()
        .is_some_and(|status| status.starts_with("503"))
    {
        return Found::Otherwise("503, nobody takes it".to_owned());
    }
    let body: Value = serde_json::from_slice(&message.body).unwrap_or_default();
    let is = match by {
        Evidence::Stream(stream) => {
            if body.get("error").is_none() && body.get("seq").is_some() {
                return Found::Effect(format!("it was stored: {body}"));
            }
            let code = body.pointer("/error/err_code").and_then(Value::as_u64);
            code == Some(ANOTHER_STREAM)
                && body.get("stream").and_then(Value::as_str) == Some(stream.as_str())
        }
        Evidence::Consumer(_) => message.body.is_empty(),
        Evidence::Api => body.get("type").is_some() && body.get("error").is_none(),
        Evidence::HeardBySelf | Evidence::HeardInMesh | Evidence::Taken => true,
    };
    if is {
        Found::Allowed
    } else {
        Found::Otherwise(String::from_utf8_lossy(&message.body).into_owned())
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
/// Taken by no verb that changes anything.
const NO_JSON: &str = "mesh-probe";
/// The place in its own inbox where a principal hears itself: what `mesh_derive::proof` names so.
const OWN: &str = "mesh-probe";
/// "expected stream does not match"
const ANOTHER_STREAM: u64 = 10_060;
/// The subscriptions in which answers arrive, and the first of an attempt.
const HELD: usize = 1;
const OWN_HELD: usize = 2;
const FIRST: usize = 3;
/// How many attempts are under way at once.
const WINDOW: usize = 64;
const READ_WITHIN: Duration = Duration::from_secs(20);
const ANSWERED_WITHIN: Duration = Duration::from_secs(5);
