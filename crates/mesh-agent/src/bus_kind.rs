//! Which kind of bus a URL names, and what that bus knows a key by.

use mesh_amqp::Credential;
use mesh_auth::keys::UserKey;
use mesh_model::{BusKind, InvalidPublicKey, PublicKey};

/// Which kind is reached there. Where no URL is named nobody connects, and it is as on NATS.
pub fn bus_at(urls: &[String]) -> BusKind {
    match urls.first() {
        Some(url) if url.starts_with("amqps://") || url.starts_with("amqp://") => BusKind::Amqp,
        _ => BusKind::Nats,
    }
}

/// What requests, records and declarations hold of a key on a bus of this kind: no secret, and nothing a secret can be
/// found from.
pub fn public_on(kind: BusKind, key: &UserKey) -> Result<PublicKey, InvalidPublicKey> {
    match kind {
        BusKind::Nats => PublicKey::new(key.public().as_str()),
        BusKind::Amqp => Ok(Credential::of_seed(key.seed().expose()).public()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scheme_says_which_bus_it_is_and_each_knows_a_key_by_something_else() {
        let kind = |url: &str| bus_at(&[url.to_owned()]);
        assert_eq!(kind("tls://bus.example:4222"), BusKind::Nats);
        assert_eq!(kind("amqps://bus.example/mesh"), BusKind::Amqp);
        assert_eq!(kind("amqp://127.0.0.1/mesh"), BusKind::Amqp);
        assert_eq!(bus_at(&[]), BusKind::Nats);

        let key = UserKey::generate().unwrap();
        let [nats, amqp] =
            [BusKind::Nats, BusKind::Amqp].map(|kind| public_on(kind, &key).unwrap());
        assert_eq!(nats.as_str(), key.public().as_str());
        assert_ne!(nats, amqp);
        assert_eq!(public_on(BusKind::Amqp, &key).unwrap(), amqp);
    }
}
