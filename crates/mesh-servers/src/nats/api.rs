//! Subjects of the `JetStream` API and of acknowledgements: what a client has to be allowed to publish on.

/// A request to the `JetStream` API, or an answer of a consumer's owner (`server/jetstream_api.go`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request {
    /// The account's limits and usage.
    AccountInfo,
    /// A stream, created, changed, read, emptied, deleted.
    StreamCreate,
    /// See [`Self::StreamCreate`].
    StreamUpdate,
    /// See [`Self::StreamCreate`].
    StreamInfo,
    /// See [`Self::StreamCreate`].
    StreamPurge,
    /// See [`Self::StreamCreate`].
    StreamDelete,
    /// The streams, by name or whole.
    StreamNames,
    /// See [`Self::StreamNames`].
    StreamList,
    /// One message, by its sequence or the last of a subject.
    MessageGet,
    /// One message, deleted.
    MessageDelete,
    /// One message, answered by any replica.
    DirectGet,
    /// The last message of the subject that stands in the request's own.
    DirectGetLast,
    /// A consumer with no filter, or with several: the request's subject does not name them.
    ConsumerCreate,
    /// A consumer with exactly one filter, which stands in the subject, so that a permission can pin it.
    ConsumerCreateFiltered,
    /// A durable consumer, as clients asked before 2.9.
    ConsumerCreateDurable,
    /// A consumer named by the server, as clients asked before 2.9.
    ConsumerCreateEphemeral,
    /// A consumer, read, paused, reset, unpinned, deleted.
    ConsumerInfo,
    /// See [`Self::ConsumerInfo`].
    ConsumerPause,
    /// See [`Self::ConsumerInfo`].
    ConsumerReset,
    /// See [`Self::ConsumerInfo`].
    ConsumerUnpin,
    /// See [`Self::ConsumerInfo`].
    ConsumerDelete,
    /// The consumers of a stream, by name or whole.
    ConsumerNames,
    /// See [`Self::ConsumerNames`].
    ConsumerList,
    /// The next messages of a pull consumer.
    PullNext,
}

impl Request {
    /// The request's subject, for a stream, a consumer and a filter or subject; what it does not name is not looked at.
    pub fn subject(self, stream: &str, consumer: &str, filter: &str) -> String {
        let of_stream = |verb: &str| format!("$JS.API.{verb}.{stream}");
        let of_consumer = |verb: &str| format!("$JS.API.CONSUMER.{verb}.{stream}.{consumer}");
        match self {
            Self::AccountInfo => "$JS.API.INFO".to_owned(),
            Self::StreamNames => "$JS.API.STREAM.NAMES".to_owned(),
            Self::StreamList => "$JS.API.STREAM.LIST".to_owned(),
            Self::StreamCreate => of_stream("STREAM.CREATE"),
            Self::StreamUpdate => of_stream("STREAM.UPDATE"),
            Self::StreamInfo => of_stream("STREAM.INFO"),
            Self::StreamPurge => of_stream("STREAM.PURGE"),
            Self::StreamDelete => of_stream("STREAM.DELETE"),
            Self::MessageGet => of_stream("STREAM.MSG.GET"),
            Self::MessageDelete => of_stream("STREAM.MSG.DELETE"),
            Self::DirectGet => of_stream("DIRECT.GET"),
            Self::DirectGetLast => format!("{}.{filter}", of_stream("DIRECT.GET")),
            Self::ConsumerCreate => of_consumer("CREATE"),
            Self::ConsumerCreateFiltered => format!("{}.{filter}", of_consumer("CREATE")),
            Self::ConsumerCreateDurable => of_consumer("DURABLE.CREATE"),
            Self::ConsumerCreateEphemeral => of_stream("CONSUMER.CREATE"),
            Self::ConsumerInfo => of_consumer("INFO"),
            Self::ConsumerPause => of_consumer("PAUSE"),
            Self::ConsumerReset => of_consumer("RESET"),
            Self::ConsumerUnpin => of_consumer("UNPIN"),
            Self::ConsumerDelete => of_consumer("DELETE"),
            Self::ConsumerNames => of_stream("CONSUMER.NAMES"),
            Self::ConsumerList => of_stream("CONSUMER.LIST"),
            Self::PullNext => of_consumer("MSG.NEXT"),
        }
    }
}

/// The form of a delivered message's reply subject (`server/feature_flags.go`, `js_ack_fc_v2`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AckForm {
    /// Stream and consumer come first: what a server of 2.10 to 2.15 writes.
    V1,
    /// The domain and the account's hash come before them.
    V2,
}

impl AckForm {
    /// The form of a reply subject, cut short or whole: in the first the consumer is followed by how often the message
    /// was delivered. Nothing, where it is no ack.
    pub fn of(reply: &str) -> Option<Self> {
        let mut rest = reply.strip_prefix("$JS.ACK.")?.split('.').skip(2);
        let number = |token: &str| !token.is_empty() && token.bytes().all(|b| b.is_ascii_digit());
        Some(if rest.next().is_none_or(number) {
            Self::V1
        } else {
            Self::V2
        })
    }

    /// How many tokens the whole subject has.
    pub fn tokens(self) -> usize {
        self.subject("_", "_", "_", "_").split('.').count()
    }

    /// The subject of a message's ack, with what the server counts for each message left to be filled in.
    pub fn subject(self, domain: &str, account_hash: &str, stream: &str, consumer: &str) -> String {
        let counted = "<delivered>.<sseq>.<cseq>.<ts>.<pending>";
        match self {
            Self::V1 => format!("$JS.ACK.{stream}.{consumer}.{counted}"),
            Self::V2 => format!("$JS.ACK.{domain}.{account_hash}.{stream}.{consumer}.{counted}"),
        }
    }
}
