//! Which kind of bus a URL names, and what that bus knows a key by.

use mesh_amqp::Credential;
use mesh_auth::keys::UserKey;
use mesh_model::{InvalidPublicKey, PublicKey};

/// A kind of bus. On each a principal has the same secret, a seed, and proves it in that bus's own way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BusKind {
    /// NATS: a server knows the public half of a key, and has the secret half sign.
    Nats,
    /// RabbitMQ: a broker knows the hash of a password that follows from the seed.
    Amqp,
}

impl BusKind {
    /// Which kind is reached there. Where no URL is named nobody connects, and it is as on NATS.
    pub fn of(urls: &[String]) -> Self {
        match urls.first() {
            Some(url) if url.starts_with("amqps://") || url.starts_with("amqp://") => Self::Amqp,
            _ => Self::Nats,
        }
    }

    /// What requests, records and declarations hold of a key: no secret, and nothing a secret can be found from.
    pub fn public(self, key: &UserKey) -> Result<PublicKey, InvalidPublicKey> {
        match self {
            Self::Nats => PublicKey::new(key.public().as_str()),
            Self::Amqp => Ok(Credential::of_seed(key.seed().expose()).public()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scheme_says_which_bus_it_is_and_each_knows_a_key_by_something_else() {
        let kind = |url: &str| BusKind::of(&[url.to_owned()]);
        assert_eq!(kind("tls://bus.example:4222"), BusKind::Nats);
        assert_eq!(kind("amqps://bus.example/mesh"), BusKind::Amqp);
        assert_eq!(kind("amqp://127.0.0.1/mesh"), BusKind::Amqp);
        assert_eq!(BusKind::of(&[]), BusKind::Nats);

        let key = UserKey::generate().unwrap();
        let [nats, amqp] = [BusKind::Nats, BusKind::Amqp].map(|kind| kind.public(&key).unwrap());
        assert_eq!(nats.as_str(), key.public().as_str());
        assert_ne!(nats, amqp);
        assert_eq!(BusKind::Amqp.public(&key).unwrap(), amqp);
    }
}
