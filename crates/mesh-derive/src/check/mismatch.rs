//! What can be wrong with a plan: each says what, about which, and what to do.

mod definition;
mod grant;
mod limit;
mod sharing;

pub use definition::DefinitionFault;
pub use grant::GrantFault;
pub use limit::LimitFault;
use mesh_model::{ConsumerRef, Filter, Principal, StreamName, Subject};
pub use sharing::SharingFault;

/// Two definitions that do not serve one another. Every one of these is taken by a server without an error.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum Mismatch {
    /// The consumer is called otherwise than its owner may acknowledge, so each message comes again for ever.
    #[error(
        "consumer {consumer}: {owner} may not publish {missing} and so cannot acknowledge; name the consumer as the \
         grant does, or grant that subject"
    )]
    CannotAck {
        /// The consumer.
        consumer: ConsumerRef,
        /// Its owner.
        owner: Principal,
        /// The ack subjects not granted.
        missing: Filter,
    },
    /// Who publishes there is somebody else: whoever hears it believes the subject.
    #[error(
        "{principal}: may publish {filter}, and so speak as somebody else; grant only what is its own to say"
    )]
    SpeaksAsAnother {
        /// Who.
        principal: Principal,
        /// What it may publish.
        filter: Filter,
    },
    /// The consumer selects what its owner was not declared to hear.
    #[error(
        "consumer {consumer}: selects {filter}, which {owner} is not to read; select what was declared for {owner} and \
         nothing else"
    )]
    ReadsAnothers {
        /// The consumer.
        consumer: ConsumerRef,
        /// Its owner.
        owner: Principal,
        /// What it selects.
        filter: Filter,
    },
    /// What was declared for a principal to hear reaches it through no consumer.
    #[error(
        "{owner}: no consumer of its own selects {filter}; add it to the filters of the one it reads through"
    )]
    NeverHears {
        /// Who is to hear it.
        owner: Principal,
        /// What.
        filter: Filter,
    },
    /// The consumer has to be asked for messages, and its owner cannot ask.
    #[error(
        "consumer {consumer}: is pull, and {owner} reaches no API to bind it; make it push, to a subject {owner} may \
         subscribe"
    )]
    PullCannotBind {
        /// The consumer.
        consumer: ConsumerRef,
        /// Its owner.
        owner: Principal,
    },
    /// A list of filters that is empty, which to a server means everything.
    #[error(
        "consumer {consumer}: an empty list of filters reads the whole stream; name a filter, or leave the consumer out"
    )]
    EmptyFilter {
        /// The consumer.
        consumer: ConsumerRef,
    },
    /// The owner cannot hear where the consumer delivers.
    #[error(
        "consumer {consumer}: delivers to {deliver}, which {owner} may not subscribe; grant it, or deliver where {owner} listens"
    )]
    DeliverNotSubscribable {
        /// The consumer.
        consumer: ConsumerRef,
        /// Its owner.
        owner: Principal,
        /// Where it delivers.
        deliver: Subject,
    },
    /// One of the two names a group and the other does not: a member is never served, or a stranger gets copies.
    #[error(
        "consumer {consumer}: {deliver} is {} and {owner} may subscribe it {}; give both the same group",
        in_group(.delivers.as_ref()), in_group(.granted.as_ref())
    )]
    QueueGroupMissing {
        /// The consumer.
        consumer: ConsumerRef,
        /// Its owner.
        owner: Principal,
        /// Where it delivers.
        deliver: Subject,
        /// The consumer's group.
        delivers: Option<String>,
        /// The grant's group.
        granted: Option<String>,
    },
    /// They name different groups, so nothing is ever delivered.
    #[error(
        "consumer {consumer}: delivers to group {delivers:?} and {owner} may join {granted:?} only; give both the same group"
    )]
    QueueGroupDifferent {
        /// The consumer.
        consumer: ConsumerRef,
        /// Its owner.
        owner: Principal,
        /// The consumer's group.
        delivers: String,
        /// The grant's group.
        granted: String,
    },
    /// A domain no subject can carry.
    #[error(
        "bus domain {domain:?} is not one subject token, so no ack subject can be worked out; correct it to the server's"
    )]
    InvalidDomain {
        /// The domain.
        domain: String,
    },
    /// The consumer reads a stream that is not in the plan.
    #[error("consumer {consumer}: there is no stream {}; derive it, or leave the consumer out", .consumer.stream())]
    NoStream {
        /// The consumer.
        consumer: ConsumerRef,
    },
    /// The consumer selects what its stream never stores, so it hears nothing.
    #[error("consumer {consumer}: selects {filter}, which stream {} does not store; select within its subjects", .consumer.stream())]
    FilterOutsideStream {
        /// The consumer.
        consumer: ConsumerRef,
        /// What it selects.
        filter: Filter,
    },
    /// The consumer selects, besides what its stream stores, what it never does.
    #[error("consumer {consumer}: selects {filter}, and stream {} stores only part of that; select within its subjects", .consumer.stream())]
    FilterReachesOutside {
        /// The consumer.
        consumer: ConsumerRef,
        /// What it selects.
        filter: Filter,
    },
    /// Two filters meet where a server lets only one have a message.
    #[error(
        "consumer {consumer}: {filter} meets {met} of {with}; a message there would have two readers, so keep one"
    )]
    OverlappingFilters {
        /// The consumer.
        consumer: ConsumerRef,
        /// Its filter.
        filter: Filter,
        /// The consumer it meets, or the same one.
        with: ConsumerRef,
        /// The other filter.
        met: Filter,
    },
    /// Two streams, or one stream twice, store the same subject.
    #[error(
        "stream {stream}: stores {subject}, and {with} stores {met}; a server refuses the second, so let one store it"
    )]
    StreamsOverlap {
        /// The stream.
        stream: StreamName,
        /// What it stores.
        subject: Filter,
        /// The stream it meets, or the same one.
        with: StreamName,
        /// What that stores.
        met: Filter,
    },
    /// A stream that would store the server's own subjects.
    #[error(
        "stream {stream}: {subject} meets the server's own subjects; begin it with a literal token that is not theirs"
    )]
    StoresServer {
        /// The stream.
        stream: StreamName,
        /// What it stores.
        subject: Filter,
    },
    /// More consumers than the stream may have.
    #[error(
        "stream {stream}: would have {count} consumers and may have {limit}; raise max_consumers"
    )]
    TooManyConsumers {
        /// The stream.
        stream: StreamName,
        /// How many are derived.
        count: usize,
        /// How many it may have.
        limit: u32,
    },
    /// The deliver subject is itself stored, which is a circle.
    #[error(
        "consumer {consumer}: delivers to {deliver}, which stream {stream} stores; deliver outside every stream"
    )]
    DeliverStored {
        /// The consumer.
        consumer: ConsumerRef,
        /// Where it delivers.
        deliver: Subject,
        /// Who stores it.
        stream: StreamName,
    },
    /// Somebody may publish where only a server delivers.
    #[error(
        "{principal}: may publish {by}, which meets {deliver} where {consumer} delivers; take it out of the grant"
    )]
    DeliverPublishable {
        /// Whose grant.
        principal: Principal,
        /// Which entry.
        by: Filter,
        /// The consumer.
        consumer: ConsumerRef,
        /// Where it delivers.
        deliver: Filter,
    },
    /// Somebody may settle another's messages.
    #[error(
        "{principal}: may publish {by}, which meets {ack} of consumer {consumer}; take it out of the grant"
    )]
    AcksAnothers {
        /// Whose grant.
        principal: Principal,
        /// Which entry.
        by: Filter,
        /// The consumer.
        consumer: ConsumerRef,
        /// Its ack subjects.
        ack: Filter,
    },
    /// Somebody may hear what is another's alone.
    #[error("{principal}: may subscribe {by}, which meets {met} of {of}; take it out of the grant")]
    HearsAnothers {
        /// Whose grant.
        principal: Principal,
        /// Which entry.
        by: Filter,
        /// What is another's.
        met: Filter,
        /// Whose, or which consumer's.
        of: String,
    },
    /// Somebody may answer in another's inbox, which is the controller's part.
    #[error(
        "{principal}: may publish {by}, which meets the inbox {inbox} of {of}; take it out of the grant"
    )]
    AnswersAnothers {
        /// Whose grant.
        principal: Principal,
        /// Which entry.
        by: Filter,
        /// The inbox.
        inbox: Filter,
        /// Whose.
        of: Principal,
    },
    /// An entry that allows more than it says.
    #[error(
        "{principal}: a subscribe entry ending in '*' admits '>' below it; write {filter} without the wildcard"
    )]
    SubscribeEndsInStar {
        /// Whose grant.
        principal: Principal,
        /// Which entry.
        filter: Filter,
    },
    /// Authority over definitions outside the controller.
    #[error(
        "{principal}: {filter} meets the server's own subjects; only the controller may ask a server for anything"
    )]
    ReachesServer {
        /// Whose grant.
        principal: Principal,
        /// Which entry.
        filter: Filter,
    },
    /// Acks do not cross from the owner's account to the stream's.
    #[error(
        "consumer {consumer}: no service between the accounts carries {ack}; export it from MESH and import it into EDGE"
    )]
    NoAckPath {
        /// The consumer.
        consumer: ConsumerRef,
        /// Its ack subjects.
        ack: Filter,
    },
    /// Deliveries do not cross from the stream's account to the owner's.
    #[error(
        "consumer {consumer}: no stream between the accounts carries {deliver}; export it from MESH and import it into EDGE"
    )]
    NoDeliverPath {
        /// The consumer.
        consumer: ConsumerRef,
        /// Where it delivers.
        deliver: Subject,
    },
    /// An entry of a grant that leads nowhere.
    #[error(
        "{principal}: nothing between the accounts carries {filter}; share it, or take it out of the grant"
    )]
    NoPath {
        /// Whose grant.
        principal: Principal,
        /// Which entry.
        filter: Filter,
    },
    /// A consumer's owner, or a key's, has no grant.
    #[error("{principal}: has a consumer or a key and no grant; derive one, or remove them")]
    NoGrant {
        /// Who.
        principal: Principal,
    },
    /// An entry that another one of the same grant says already.
    #[error("{principal}: {entry} lies inside {within}, which it has too; leave it out")]
    InsideAnother {
        /// Whose grant.
        principal: Principal,
        /// Which entry.
        entry: Filter,
        /// Which other.
        within: Filter,
    },
    /// The controller may do what it never does.
    #[error(
        "controller: may use {filter}, which it has no use for; grant it what it does and not more"
    )]
    ControllerBeyond {
        /// Which entry.
        filter: Filter,
    },
    /// The controller may not do what it does: a call of its would be refused, or end without an answer.
    #[error("controller: may not use {filter}, which it needs; grant it")]
    ControllerLacks {
        /// Which entry.
        filter: Filter,
    },
    /// What the accounts share is not what has to cross.
    #[error(transparent)]
    Sharing(SharingFault),
    /// A definition that a server takes for another, or takes with a consequence.
    #[error(transparent)]
    Definition(DefinitionFault),
    /// More than a server takes.
    #[error(transparent)]
    Limit(LimitFault),
    /// A grant that is not what its owner does.
    #[error(transparent)]
    Grant(GrantFault),
    /// Somebody with a grant has no key of its own: another has the same one.
    #[error("{principal}: its key is another's too, so it has none; give it a new one")]
    NoUser {
        /// Who.
        principal: Principal,
    },
}

fn in_group(group: Option<&String>) -> String {
    match group {
        Some(group) => format!("in group {group:?}"),
        None => "in no group".to_owned(),
    }
}
