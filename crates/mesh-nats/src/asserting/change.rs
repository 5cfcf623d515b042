//! What is to be done to one consumer.

use mesh_bus::BusError;
use mesh_derive::subject;
use mesh_model::{ConsumerRef, ConsumerSpec};

use crate::api::{Api, Position};
use crate::definition::{
    Difference, Fields, PAUSED, consumer_fields, consumer_refuses, differences, going_on,
    immutable, overlaid,
};
use crate::places::{Begins, may_have_missed};

/// What a consumer needs.
pub(super) enum Change {
    Make(Fields, Begins),
    Alter(Fields, Vec<Difference>),
    MakeAnew(Fields, Difference),
}

impl Change {
    pub(super) fn in_words(&self, consumer: &ConsumerRef) -> String {
        match self {
            Self::Make(_, Begins::GoingOn(at)) => {
                format!("consumer {consumer}: made again, going on with message {at}")
            }
            Self::Make(..) => format!("consumer {consumer}: made"),
            Self::Alter(_, differences) => changed(&format!("consumer {consumer}"), differences),
            Self::MakeAnew(_, difference) => format!(
                "consumer {consumer}: deleted and made anew for {}, which cannot be changed in place; nothing is lost, its stream keeps each node's newest declaration",
                difference.field
            ),
        }
    }

    /// Does it; where one that is made begins.
    pub(super) async fn carry_out(
        self,
        api: &Api,
        consumer: &ConsumerRef,
    ) -> Result<Option<Position>, BusError> {
        match self {
            Self::Make(config, begins) => {
                if begins == Begins::Unknown {
                    tracing::warn!("{}", may_have_missed(consumer));
                }
                api.create_consumer(consumer, config).await.map(Some)
            }
            Self::Alter(config, differences) => {
                let paused = |difference: &Difference| difference.field == PAUSED;
                if differences.iter().any(paused) {
                    api.resume_consumer(consumer).await?;
                }
                if !differences.iter().all(paused) {
                    api.update_consumer(consumer, config).await?;
                }
                Ok(None)
            }
            Self::MakeAnew(config, _) => {
                api.delete_consumer(consumer).await?;
                api.create_consumer(consumer, config).await.map(Some)
            }
        }
    }
}

/// What a consumer needs to be as it is declared; nothing where it is. `begins` says how one that is not there is to begin.
pub(super) fn change(
    spec: &ConsumerSpec,
    found: Option<&Fields>,
    begins: impl FnOnce() -> Begins,
) -> Result<Option<Change>, BusError> {
    let declared = consumer_fields(spec);
    let Some(found) = found else {
        let begins = begins();
        let config = match begins {
            Begins::GoingOn(at) => going_on(&declared, at),
            Begins::AsDeclared | Begins::Unknown => overlaid(&declared, None),
        };
        return Ok(Some(Change::Make(config, begins)));
    };
    let differences = differences(&declared, found);
    if differences.is_empty() {
        return Ok(None);
    }
    let Some(difference) = immutable(&differences, consumer_refuses) else {
        let config = overlaid(&declared, Some(found));
        return Ok(Some(Change::Alter(config, differences)));
    };
    let consumer = &spec.consumer;
    if *consumer.stream() == subject::nodes_stream() {
        let config = overlaid(&declared, None);
        return Ok(Some(Change::MakeAnew(config, difference.clone())));
    }
    let remedy = format!(
        "what it has out would come again: let it settle that, delete consumer {} of stream {}, and it is made again where it stood",
        consumer.name(),
        consumer.stream()
    );
    Err(unchangeable(
        format!("consumer {consumer}"),
        difference,
        remedy,
    ))
}

/// In words, which fields of what were changed.
pub(super) fn changed(what: &str, differences: &[Difference]) -> String {
    let fields: Vec<&str> = differences.iter().map(|d| d.field.as_str()).collect();
    format!("{what}: changed {}", fields.join(", "))
}

/// What is said of a field that cannot be changed where it stands.
pub(super) fn unchangeable(what: String, difference: &Difference, remedy: String) -> BusError {
    BusError::Immutable {
        what,
        field: difference.field.clone(),
        found: difference.found.to_string(),
        wanted: difference.wanted.to_string(),
        remedy,
    }
}
