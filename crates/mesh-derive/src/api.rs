//! What the controller asks of a server's JetStream API: every call there is, so that a grant can be held against them.

use mesh_model::Filter;

use crate::subject::filter;

/// A call the controller makes. Who speaks to the API takes its subjects from here, so that none is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApiCall {
    /// Every stream, with what it holds.
    StreamList,
    /// Makes a stream.
    StreamCreate,
    /// Changes a stream.
    StreamUpdate,
    /// Deletes a stream, and what it holds.
    StreamDelete,
    /// The last message of a subject.
    MessageGet,
    /// The consumers of a stream, with where each stands.
    ConsumerList,
    /// Makes or changes a consumer. Its filters stand in the body, however many there are.
    ConsumerCreate,
    /// Deletes a consumer.
    ConsumerDelete,
    /// Has a consumer deliver again.
    ConsumerPause,
    /// The next messages of a pull consumer.
    ConsumerNext,
}

impl ApiCall {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::StreamList,
        Self::StreamCreate,
        Self::StreamUpdate,
        Self::StreamDelete,
        Self::MessageGet,
        Self::ConsumerList,
        Self::ConsumerCreate,
        Self::ConsumerDelete,
        Self::ConsumerPause,
        Self::ConsumerNext,
    ];

    /// Where it is asked, of a stream and a consumer; what the call does not name is not looked at.
    pub fn subject(self, stream: &str, consumer: &str) -> String {
        match self {
            Self::StreamList => "$JS.API.STREAM.LIST".to_owned(),
            Self::StreamCreate => format!("$JS.API.STREAM.CREATE.{stream}"),
            Self::StreamUpdate => format!("$JS.API.STREAM.UPDATE.{stream}"),
            Self::StreamDelete => format!("$JS.API.STREAM.DELETE.{stream}"),
            Self::MessageGet => format!("$JS.API.STREAM.MSG.GET.{stream}"),
            Self::ConsumerList => format!("$JS.API.CONSUMER.LIST.{stream}"),
            Self::ConsumerCreate => format!("$JS.API.CONSUMER.CREATE.{stream}.{consumer}"),
            Self::ConsumerDelete => format!("$JS.API.CONSUMER.DELETE.{stream}.{consumer}"),
            Self::ConsumerPause => format!("$JS.API.CONSUMER.PAUSE.{stream}.{consumer}"),
            Self::ConsumerNext => format!("$JS.API.CONSUMER.MSG.NEXT.{stream}.{consumer}"),
        }
    }

    /// Everywhere it may be asked.
    pub(crate) fn everywhere(self) -> Filter {
        filter(self.subject("*", "*"))
    }
}
