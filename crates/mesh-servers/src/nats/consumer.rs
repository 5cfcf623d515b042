//! Consumers: which filters one may have, alone and beside the others of a work queue, and what creating one answers.

use super::name::MAX_NAME;
use super::refusal::{Refusal, refuse};
use super::stream::Stream;
use super::subject::{is_literal, is_subset, matches, overlaps, valid_in_definition};
use super::update::ConsumerField;

/// How long a message waits for its ack where nothing says so, in nanoseconds (`JsAckWaitDefault`).
pub const DEFAULT_ACK_WAIT: i64 = 30_000_000_000;

/// How a stream keeps its messages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Retention {
    /// Until a limit is met.
    #[default]
    Limits,
    /// Until each interested consumer has acknowledged.
    Interest,
    /// Until the one consumer they are for has acknowledged.
    WorkQueue,
}

/// Who acknowledges.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum AckPolicy {
    /// Nobody; what a definition says that says nothing.
    #[default]
    None,
    /// One for all before it.
    All,
    /// Each message its own.
    Explicit,
}

/// What of a consumer's definition its creation is judged by. Times are in nanoseconds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[expect(
    missing_docs,
    reason = "each is the field of the same name in the server's JSON"
)]
pub struct Consumer {
    pub durable_name: String,
    pub filter_subject: String,
    pub filter_subjects: Vec<String>,
    pub ack_policy: AckPolicy,
    pub deliver_all: bool,
    pub deliver_subject: String,
    pub ack_wait: i64,
    pub backoff: Vec<i64>,
    pub max_deliver: i64,
    pub idle_heartbeat: i64,
    pub flow_control: bool,
    pub max_waiting: i64,
    pub rate_limit_bps: i64,
}

impl Consumer {
    /// Whether the request for this consumer on `api_subject` is taken by `stream`, which has the consumers `others`:
    /// `jsConsumerCreateRequest` of `server/jetstream_api.go`, then `checkConsumerCfg` and `addConsumer` of
    /// `server/consumer.go`. The consumer itself may be among the others: then it is updated.
    pub fn create(
        &self,
        api_subject: &str,
        stream: &Stream,
        retention: Retention,
        others: &[Self],
    ) -> Result<(), Refusal> {
        self.addressed(api_subject)?;
        self.named()?;
        if !backoff_fits(self.backoff.len(), self.max_deliver) {
            return refuse(
                10116,
                "max deliver is required to be > length of backoff values",
            );
        }
        if self.deliver_subject.is_empty() {
            self.pulled(retention)?;
        } else {
            self.pushed(stream)?;
        }
        self.filtered()?;
        if self.flow_control && self.idle_heartbeat == 0 {
            return refuse(10108, "consumer with flow control also needs heartbeats");
        }
        if retention == Retention::WorkQueue {
            self.queued(others)?;
        }
        Ok(())
    }

    /// Its filters, whichever field they stand in.
    pub fn filters(&self) -> Vec<String> {
        if self.filter_subject.is_empty() {
            self.filter_subjects.clone()
        } else {
            vec![self.filter_subject.clone()]
        }
    }

    /// The request's subject against the request.
    fn addressed(&self, api_subject: &str) -> Result<(), Refusal> {
        if api_subject.contains([' ', '\t', '\r', '\n']) {
            return Err(Refusal::Closed);
        }
        let named = api_subject
            .strip_prefix("$JS.API.CONSUMER.CREATE.")
            .or_else(|| api_subject.strip_prefix("$JS.API.CONSUMER.DURABLE.CREATE."));
        let mut rest = named.ok_or(Refusal::Unanswered)?.splitn(3, '.');
        let (_, name, filter) = (rest.next(), rest.next(), rest.next());
        let name = name.unwrap_or_default();
        if name.contains(['/', '\\']) {
            return refuse(10127, "Consumer name can not contain path separators");
        }
        if name.len() > MAX_NAME {
            return refuse(10102, "consumer name is too long, maximum allowed is 255");
        }
        if name != self.durable_name {
            return refuse(
                10017,
                "consumer name in subject does not match durable name in request",
            );
        }
        match filter {
            Some(_) if self.filter_subjects.len() > 1 => refuse(
                10137,
                "consumer with multiple subject filters cannot use subject based API",
            ),
            Some(filter) if self.filters() != [filter] => refuse(
                10131,
                "Consumer create request did not match filtered subject from create subject",
            ),
            _ => Ok(()),
        }
    }

    fn named(&self) -> Result<(), Refusal> {
        if super::valid_name(&self.durable_name) {
            return Ok(());
        }
        refuse(
            10052,
            r"consumer name can not contain '.', '*', '>', '\\', '/'",
        )
    }

    fn pushed(&self, stream: &Stream) -> Result<(), Refusal> {
        let deliver = self.deliver_subject.as_str();
        if !is_literal(deliver) {
            return refuse(10079, "consumer deliver subject has wildcards");
        }
        if !valid_in_definition(deliver) {
            return refuse(10112, "invalid push consumer deliver subject");
        }
        if stream
            .subjects
            .iter()
            .any(|stored| is_subset(deliver, stored))
        {
            return refuse(10081, "consumer deliver subject forms a cycle");
        }
        if self.max_waiting != 0 {
            return refuse(10080, "consumer in push mode can not set max waiting");
        }
        if (1..100_000_000).contains(&self.idle_heartbeat) {
            return refuse(10083, "consumer idle heartbeat needs to be >= 100ms");
        }
        Ok(())
    }

    fn pulled(&self, retention: Retention) -> Result<(), Refusal> {
        if self.ack_policy == AckPolicy::None && retention == Retention::WorkQueue {
            return refuse(
                10084,
                "consumer in pull mode requires explicit ack policy on workqueue stream",
            );
        }
        if self.rate_limit_bps > 0 {
            return refuse(10086, "consumer in pull mode can not have rate limit set");
        }
        if self.max_waiting < 0 {
            return refuse(10087, "consumer max waiting needs to be positive");
        }
        if self.idle_heartbeat > 0 {
            return refuse(
                10088,
                "consumer idle heartbeat requires a push based consumer",
            );
        }
        if self.flow_control {
            return refuse(
                10089,
                "consumer flow control requires a push based consumer",
            );
        }
        Ok(())
    }

    fn filtered(&self) -> Result<(), Refusal> {
        if !self.filter_subject.is_empty() && !self.filter_subjects.is_empty() {
            return refuse(
                10136,
                "consumer cannot have both FilterSubject and FilterSubjects specified",
            );
        }
        check_filters(&self.filters())
    }

    fn queued(&self, others: &[Self]) -> Result<(), Refusal> {
        if self.ack_policy != AckPolicy::Explicit {
            return refuse(10098, "workqueue stream requires explicit ack");
        }
        let others: Vec<Vec<String>> = others
            .iter()
            .filter(|other| other.durable_name != self.durable_name)
            .map(Self::filters)
            .collect();
        if !others.is_empty() && self.filters().is_empty() {
            return refuse(
                10099,
                "multiple non-filtered consumers not allowed on workqueue stream",
            );
        }
        if !unique_on_work_queue(&others, &self.filters()) {
            return refuse(10100, "filtered consumer not unique on workqueue stream");
        }
        if !self.deliver_all {
            return refuse(10101, "consumer must be deliver all on workqueue stream");
        }
        Ok(())
    }

    /// Whether an update of this consumer may change `field`, and to `deliver_subject` where that is the field. `bound`
    /// says whether somebody is subscribed to where it delivers now.
    pub fn change(
        &self,
        field: ConsumerField,
        deliver_subject: &str,
        bound: bool,
    ) -> Result<(), Refusal> {
        match field {
            ConsumerField::Free => Ok(()),
            ConsumerField::Fixed(why) => refuse(10012, why),
            ConsumerField::Name => refuse(
                10017,
                "consumer name in subject does not match durable name in request",
            ),
            ConsumerField::DeliverSubject => self.deliver_elsewhere(deliver_subject, bound),
        }
    }

    fn deliver_elsewhere(&self, deliver_subject: &str, bound: bool) -> Result<(), Refusal> {
        if self.deliver_subject == deliver_subject {
            Ok(())
        } else if self.deliver_subject.is_empty() {
            refuse(10012, "can not update pull consumer to push based")
        } else if deliver_subject.is_empty() {
            refuse(10012, "can not update push consumer to pull based")
        } else if bound {
            refuse(10013, "consumer name already in use")
        } else {
            Ok(())
        }
    }
}

/// Whether one consumer may have these filters: none within another; a partial overlap is taken, and its messages are
/// delivered once (`checkConsumerCfg` of `server/consumer.go`).
pub fn filters_ok(filters: &[String]) -> bool {
    check_filters(filters).is_ok()
}

fn check_filters(filters: &[String]) -> Result<(), Refusal> {
    if filters.iter().any(String::is_empty) {
        return refuse(10139, "consumer filter in FilterSubjects cannot be empty");
    }
    if !filters.iter().all(|filter| valid_in_definition(filter)) {
        return refuse(10052, "invalid subject");
    }
    let within = |(at, filter): (usize, &String)| {
        let mut wider = filters.iter().enumerate();
        wider.any(|(other, wide)| at != other && is_subset(filter, wide))
    };
    if filters.iter().enumerate().any(within) {
        return refuse(10138, "consumer subject filters cannot overlap");
    }
    Ok(())
}

/// Whether a consumer with these filters is given a message on `subject`; none of them stands for all.
pub fn filters_match(filters: &[String], subject: &str) -> bool {
    filters.is_empty() || filters.iter().any(|filter| matches(filter, subject))
}

/// Whether one of the filters is `wide` or lies within it (`isEqualOrSubsetMatch` of `server/consumer.go`).
pub fn any_filter_subset_of(filters: &[String], wide: &str) -> bool {
    filters.iter().any(|filter| is_subset(filter, wide))
}

/// Whether a consumer with these filters leaves out anything of a stream with these subjects (`isFiltered`): none, and the
/// very subjects of the stream in whatever order, are no filter.
pub fn is_filtered(stream_subjects: &[String], filters: &[String]) -> bool {
    !filters.is_empty()
        && (filters.len() != stream_subjects.len()
            || filters
                .iter()
                .any(|filter| !stream_subjects.contains(filter)))
}

/// Whether a consumer with these filters may be on a work queue beside the others, each message being for one of them
/// (`partitionUnique` of `server/stream.go`). One without filters takes all.
pub fn unique_on_work_queue(others: &[Vec<String>], filters: &[String]) -> bool {
    others.iter().all(|other| {
        let meets = |filter: &String| other.iter().any(|taken| overlaps(filter, taken));
        !other.is_empty() && !filters.is_empty() && !filters.iter().any(meets)
    })
}

/// How long a message waits for its first ack, in nanoseconds: the first of the backoff, if there is one (`setConsumerConfigDefaults`).
pub fn effective_ack_wait(ack_wait: i64, backoff: &[i64]) -> i64 {
    match backoff.first() {
        Some(first) => *first,
        None if ack_wait == 0 => DEFAULT_ACK_WAIT,
        None => ack_wait,
    }
}

/// Whether so many steps of backoff go with so many deliveries; 0 and less are as many as it takes.
pub fn backoff_fits(steps: usize, max_deliver: i64) -> bool {
    max_deliver <= 0 || i64::try_from(steps).is_ok_and(|steps| steps <= max_deliver)
}
