//! A bus as a node has it: where it is, who vouches for it, and what proves the node there.

use std::fmt;

use mesh_amqp::{Endpoint, InvalidUrl};
use mesh_auth::creds::{Credentials, CredentialsError};
use mesh_auth::keys::BoxKey;
use mesh_auth::seal::{self, OpenError};
use mesh_auth::tls::{TrustError, ca_client_config};
use mesh_model::{BusFacts, BusKind, BusPlace, Offer};

use crate::bus_at;

/// A bus, and who the node is there.
#[derive(Clone)]
pub struct Place {
    /// Which kind.
    pub bus: BusKind,
    /// Where it is.
    pub at: BusPlace,
    /// What proves the node to it.
    pub credentials: Credentials,
}

/// Why an offer cannot be taken.
#[derive(Debug, thiserror::Error)]
pub enum OfferError {
    /// Its secret.
    #[error("its credential cannot be opened: {0}")]
    Sealed(#[from] OpenError),
    /// What the secret is.
    #[error("its credential is no text")]
    NoText,
    /// What the secret says.
    #[error("its credential: {0}")]
    Credential(#[from] CredentialsError),
    /// Where it is.
    #[error("its {key} {why}")]
    Place {
        /// Of what.
        key: &'static str,
        /// What is wrong with it.
        why: String,
    },
    /// Who vouches for it.
    #[error("nobody can vouch for it: {0}")]
    Ca(#[from] TrustError),
}

impl Place {
    /// What is offered, opened. The same is asked of it as of `agent.toml`.
    pub fn of_offer(offer: &Offer, box_key: &BoxKey) -> Result<Self, OfferError> {
        let sealed = seal::Sealed::from_bytes(offer.credential.0.clone());
        let opened = seal::open(box_key, &sealed)?;
        let text = std::str::from_utf8(opened.expose()).map_err(|_| OfferError::NoText)?;
        let credentials = Credentials::parse(text)?;
        let place = |key, why: &str| OfferError::Place {
            key,
            why: why.to_owned(),
        };
        let BusPlace { urls, ca, facts } = offer.place.clone();
        let urls = usable(urls).map_err(|why| place("urls", &why))?;
        let other = |url: &String| bus_at(std::slice::from_ref(url)) != offer.bus;
        if urls.iter().any(other) {
            return Err(place("urls", "are of another kind of bus than it is"));
        }
        match &ca {
            None if need_authority(&urls) => {
                return Err(place("ca", "is missing: nobody vouches for the bus"));
            }
            None => {}
            Some(pem) => drop(ca_client_config(pem)?),
        }
        let facts = match offer.bus {
            BusKind::Nats if facts.account.is_empty() => {
                return Err(place("account", "is missing"));
            }
            BusKind::Nats => facts,
            BusKind::Amqp => BusFacts::default(),
        };
        Ok(Self {
            bus: offer.bus,
            at: BusPlace { urls, ca, facts },
            credentials,
        })
    }
}

impl PartialEq for Place {
    fn eq(&self, other: &Self) -> bool {
        let secret = |place: &Self| place.credentials.render();
        self.bus == other.bus
            && self.at == other.at
            && secret(self).expose() == secret(other).expose()
    }
}

impl Eq for Place {}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Place")
            .field("bus", &self.bus)
            .field("urls", &self.at.urls)
            .finish_non_exhaustive()
    }
}

/// These addresses, if they are some of one bus, and what is said to whoever listens on the way is read by nobody.
pub(crate) fn usable(urls: Vec<String>) -> Result<Vec<String>, String> {
    if urls.is_empty() {
        return Err("names no server; write for instance [\"tls://bus.example:4222\"]".to_owned());
    }
    if bus_at(&urls) == BusKind::Amqp {
        // Whether they go together is known before anybody is to be trusted.
        return match Endpoint::of_urls(&urls, None, "") {
            Ok(_) | Err(InvalidUrl::Untrusted { .. }) => Ok(urls),
            Err(error) => Err(error.to_string()),
        };
    }
    let is_url = |url: &&String| url.starts_with("tls://") || url.starts_with("nats://");
    match urls.iter().find(|url| !is_url(url)) {
        Some(url) => Err(format!(
            "{url:?} is no server of a bus; write for instance \"tls://bus.example:4222\""
        )),
        None => Ok(urls),
    }
}

/// Whether somebody must vouch for what is reached there: everywhere but at a broker on loopback that does not encrypt.
pub(crate) fn need_authority(urls: &[String]) -> bool {
    !urls.iter().all(|url| url.starts_with("amqp:"))
}

#[cfg(test)]
mod tests {
    use mesh_auth::keys::UserKey;
    use mesh_auth::seal::seal;
    use mesh_auth::tls::Authority;
    use mesh_model::Sealed;

    use super::*;

    fn offer(box_key: &BoxKey, bus: BusKind, urls: &[&str], ca: Option<String>) -> Offer {
        let key = UserKey::generate().unwrap();
        let sealed = seal(&box_key.public(), key.seed().expose().as_bytes()).unwrap();
        Offer {
            bus,
            place: BusPlace {
                urls: urls.iter().map(|url| (*url).to_owned()).collect(),
                ca,
                facts: BusFacts {
                    domain: None,
                    account: "MESH".to_owned(),
                },
            },
            credential: Sealed(sealed.into_bytes()),
        }
    }

    #[test]
    fn an_offer_is_held_to_the_rules_of_the_configuration() {
        let box_key = BoxKey::generate().unwrap();
        let ca = Some(Authority::generate(0).unwrap().certificate_pem().to_owned());
        let none = || None;
        let (nats, amqp) = (BusKind::Nats, BusKind::Amqp);
        for (bus, urls, ca, said) in [
            (nats, &["tls://a.example:4222"][..], ca.clone(), ""),
            (amqp, &["amqps://a.example/mesh"], ca.clone(), ""),
            (amqp, &["amqp://127.0.0.1:5672/mesh"], none(), ""),
            (nats, &[], ca.clone(), "urls names no server"),
            (
                nats,
                &["http://a.example"],
                ca.clone(),
                "no server of a bus",
            ),
            (nats, &["tls://a.example:4222"], none(), "ca is missing"),
            (nats, &["nats://a.example:4222"], none(), "ca is missing"),
            (amqp, &["amqps://a.example/mesh"], none(), "ca is missing"),
            (
                amqp,
                &["amqp://a.example/mesh"],
                ca.clone(),
                "neither encrypted nor on loopback",
            ),
            (amqp, &["amqps://u:p@a.example/"], ca.clone(), "has a login"),
            (
                nats,
                &["amqps://a.example/mesh"],
                ca.clone(),
                "another kind",
            ),
            (
                nats,
                &["tls://a.example:4222"],
                Some("no certificate".to_owned()),
                "nobody can vouch",
            ),
            (amqp, &["tls://a.example:4222"], ca, "another kind"),
        ] {
            let place = Place::of_offer(&offer(&box_key, bus, urls, ca), &box_key);
            match place {
                Ok(place) => assert_eq!((place.bus, said), (bus, "")),
                Err(error) => {
                    let error = error.to_string();
                    assert!(!said.is_empty() && error.contains(said), "{error}");
                }
            }
        }
    }

    #[test]
    fn a_credential_that_is_not_for_this_node_or_is_none_is_no_offer() {
        let (own, other) = (BoxKey::generate().unwrap(), BoxKey::generate().unwrap());
        let good = offer(&own, BusKind::Amqp, &["amqp://127.0.0.1/mesh"], None);
        assert!(Place::of_offer(&good, &own).is_ok());
        assert!(matches!(
            Place::of_offer(&good, &other),
            Err(OfferError::Sealed(_))
        ));
        for (text, said) in [(&[0xff_u8][..], "no text"), (b"hello", "its credential")] {
            let sealed = seal(&own.public(), text).unwrap();
            let bad = Offer {
                credential: Sealed(sealed.into_bytes()),
                ..good.clone()
            };
            let error = Place::of_offer(&bad, &own).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
        let mut bad = offer(&own, BusKind::Amqp, &["amqp://127.0.0.1/mesh"], None);
        bad.bus = BusKind::Nats;
        bad.place.urls = vec!["tls://a.example:4222".to_owned()];
        bad.place.ca = Some(Authority::generate(0).unwrap().certificate_pem().to_owned());
        bad.place.facts.account.clear();
        let error = Place::of_offer(&bad, &own).unwrap_err().to_string();
        assert!(error.contains("account is missing"), "{error}");
    }
}
