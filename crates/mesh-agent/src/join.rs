//! How a host with a token asks to become a node: it asks until it is answered, and believes the controller alone.

use std::time::Duration;

use mesh_bus::{BusError, JoinerBus, Verifier};
use mesh_model::{Enrolment, EnrolmentAnswer, EnrolmentRefusal, Subject};
use mesh_wire::{SignedKind, decode_enrolment_answer, encode_enrolment};
use tokio::time::{sleep, timeout};

/// How long to ask.
#[derive(Debug, Clone, Copy)]
pub struct JoinPace {
    /// Until it is asked again: the same pair of token and key gets the same answer.
    pub again: Duration,
    /// Until nobody is taken to be there.
    pub within: Duration,
}

/// Why there was no answer.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    /// The bus does not let it ask.
    #[error(transparent)]
    Refused(BusError),
    /// Nobody answered.
    #[error(
        "no answer came within {}{}; see that the controller runs, then run the same command again: it asks as the same \
         host",
        humantime::format_duration(*within),
        last.as_ref().map_or_else(String::new, |last| format!(" (last: {last})"))
    )]
    TimedOut {
        /// How long was waited.
        within: Duration,
        /// What was last in the way, if anything was.
        last: Option<String>,
    },
}

/// Asks until the controller answers. `enrolment` is taken anew each time, since it says what time it is.
pub async fn join<B: JoinerBus>(
    bus: &B,
    enrolment: impl Fn() -> Enrolment,
    verifier: &Verifier,
    pace: JoinPace,
) -> Result<EnrolmentAnswer, JoinError> {
    let mut last = None;
    let asking = async {
        loop {
            let asked = bus.ask(encode_enrolment(&enrolment())).await;
            if let Err(error) = asked {
                last = Some(passing(error)?);
            }
            let reply = bus.answer_address();
            match timeout(pace.again, answer(bus, verifier, &reply)).await {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(error)) => {
                    last = Some(passing(error)?);
                    sleep(pace.again).await;
                }
                Err(_) => tracing::warn!("no answer yet; asking again"),
            }
        }
    };
    match timeout(pace.within, asking).await {
        Ok(result) => result,
        Err(_) => Err(JoinError::TimedOut {
            within: pace.within,
            last,
        }),
    }
}

/// What is in the way for now, or the error if it is there for good.
fn passing(error: BusError) -> Result<String, JoinError> {
    if error.is_passing() {
        tracing::warn!(%error, "asking again");
        Ok(error.to_string())
    } else {
        Err(JoinError::Refused(error))
    }
}

/// The first answer the controller signed. Anybody may write to an inbox; what is not signed is nobody's, and a refusal of
/// an address that is not ours answers somebody else who holds the token.
async fn answer<B: JoinerBus>(
    bus: &B,
    verifier: &Verifier,
    reply: &Subject,
) -> Result<EnrolmentAnswer, BusError> {
    loop {
        let bytes = bus.answer().await?;
        let opened = verifier
            .open(SignedKind::EnrolmentAnswer, &bytes)
            .map_err(|error| error.to_string())
            .and_then(|body| decode_enrolment_answer(&body).map_err(|error| error.to_string()));
        match opened {
            Ok(EnrolmentAnswer::Refused(EnrolmentRefusal::ForeignAddress { address }))
                if address != *reply =>
            {
                tracing::warn!(%address, "somebody else who holds this token was refused");
            }
            Ok(answer) => return Ok(answer),
            Err(why) => tracing::warn!(why, "an answer was not believed"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::sync::Mutex;

    use mesh_auth::keys::{BoxKey, SigningKey, UserKey};
    use mesh_auth::sign::sign;
    use mesh_bus::Signer;
    use mesh_model::{BoxPublicKey, PublicKey, Timestamp};
    use mesh_wire::{decode_enrolment, encode_enrolment_answer};

    use super::*;
    use crate::verifier;

    /// A bus that plays what it is given: what becomes of each request, and what then arrives.
    struct Played {
        asks: Mutex<Vec<Result<Vec<Vec<u8>>, BusError>>>,
        arrived: Mutex<VecDeque<Vec<u8>>>,
        asked: Mutex<Vec<Enrolment>>,
    }

    impl Played {
        fn new(asks: impl IntoIterator<Item = Result<Vec<Vec<u8>>, BusError>>) -> Self {
            Self {
                asks: Mutex::new(asks.into_iter().collect()),
                arrived: Mutex::default(),
                asked: Mutex::default(),
            }
        }
    }

    impl JoinerBus for Played {
        fn answer_address(&self) -> Subject {
            "mesh.inbox.joiner.t1.answer".parse().unwrap()
        }

        async fn ask(&self, body: Vec<u8>) -> Result<(), BusError> {
            self.asked
                .lock()
                .unwrap()
                .push(decode_enrolment(&body).unwrap());
            let mut asks = self.asks.lock().unwrap();
            if asks.is_empty() {
                return Ok(());
            }
            let arrived = asks.remove(0)?;
            self.arrived.lock().unwrap().extend(arrived);
            Ok(())
        }

        async fn answer(&self) -> Result<Vec<u8>, BusError> {
            let first = self.arrived.lock().unwrap().pop_front();
            match first {
                Some(bytes) => Ok(bytes),
                None => std::future::pending().await,
            }
        }
    }

    const PACE: JoinPace = JoinPace {
        again: Duration::from_secs(5),
        within: Duration::from_secs(58),
    };

    fn signed(key: &SigningKey, kind: SignedKind, answer: &EnrolmentAnswer) -> Vec<u8> {
        let key = key.clone();
        Signer::new(move |bytes| sign(&key, bytes)).seal(kind, &encode_enrolment_answer(answer))
    }

    async fn joined(bus: &Played, controller: &SigningKey) -> Result<EnrolmentAnswer, JoinError> {
        let key = UserKey::generate().unwrap().public();
        let box_key = BoxKey::generate().unwrap().public();
        let enrolment = || Enrolment {
            node: None,
            key: PublicKey::new(key.as_str()).unwrap(),
            box_key: BoxPublicKey::new(box_key.as_str()).unwrap(),
            reply: bus.answer_address(),
            clock: Timestamp::from_millis(1),
        };
        join(bus, enrolment, &verifier(controller.public()), PACE).await
    }

    fn no() -> EnrolmentAnswer {
        EnrolmentAnswer::Refused(EnrolmentRefusal::NoName)
    }

    #[tokio::test(start_paused = true)]
    async fn it_asks_until_the_controller_answers_and_believes_nobody_else() {
        let [key, other] = [(); 2].map(|()| SigningKey::generate().unwrap());
        let taken = EnrolmentAnswer::Refused(EnrolmentRefusal::NameTaken {
            node: "web-1".parse().unwrap(),
        });
        let of_another = EnrolmentAnswer::Refused(EnrolmentRefusal::ForeignAddress {
            address: "mesh.inbox.node.web-1.x".parse().unwrap(),
        });
        let noise = vec![
            b"{\"stream\":\"CONTROL\"}".to_vec(),
            signed(&other, SignedKind::EnrolmentAnswer, &taken),
            signed(&key, SignedKind::Declaration, &taken),
            signed(&key, SignedKind::EnrolmentAnswer, &of_another),
        ];
        let bus = Played::new([
            Err(BusError::Away("not connected".to_owned())),
            Ok(noise),
            Ok(vec![signed(&key, SignedKind::EnrolmentAnswer, &no())]),
        ]);
        assert_eq!(joined(&bus, &key).await.unwrap(), no());
        let asked = bus.asked.lock().unwrap();
        assert_eq!(asked.len(), 3);
        assert!(asked.iter().all(|one| one == &asked[0]));
    }

    #[tokio::test(start_paused = true)]
    async fn it_gives_up_in_time_and_says_what_was_in_the_way() {
        let key = SigningKey::generate().unwrap();
        let bus = Played::new([Err(BusError::Full("mesh.control.enrol.t1".to_owned()))]);
        let error = joined(&bus, &key).await.unwrap_err();
        assert!(matches!(error, JoinError::TimedOut { .. }));
        assert!(
            error.to_string().contains("within 58s (last: mesh.control"),
            "{error}"
        );
        assert_eq!(bus.asked.lock().unwrap().len(), 12);
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_by_the_bus_ends_it_at_once() {
        let key = SigningKey::generate().unwrap();
        let bus = Played::new([Err(BusError::Refused {
            what: "mesh.control.enrol.t1".to_owned(),
            why: "permissions violation".to_owned(),
        })]);
        assert!(matches!(
            joined(&bus, &key).await,
            Err(JoinError::Refused(_))
        ));
        assert_eq!(bus.asked.lock().unwrap().len(), 1);
    }
}
