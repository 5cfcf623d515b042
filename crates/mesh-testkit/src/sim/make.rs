//! Names, keys and credentials of a made-up world.

use std::fmt::Debug;
use std::str::FromStr;

use mesh_control::{Mint, MintError, Minted};
use mesh_model::{BoxPublicKey, InstanceRef, PublicKey, Sealed};

#[expect(
    clippy::expect_used,
    reason = "the simulator's own words, each of them a valid name"
)]
pub(super) fn named<T: FromStr<Err: Debug>>(text: &str) -> T {
    text.parse().expect("the simulator's own words are valid")
}

/// A user's key, told from any other by its number.
pub(super) fn user_key(number: u64) -> PublicKey {
    named(&encoded('U', number))
}

/// A key to seal to, told from any other by its number.
pub(super) fn box_key(number: u64) -> BoxPublicKey {
    named(&encoded('X', number))
}

fn encoded(prefix: char, number: u64) -> String {
    let digit =
        |place: u64| char::from(b'A' + u8::try_from((number >> (4 * place)) & 15).unwrap_or(0));
    let digits: String = (0..16).map(digit).collect();
    format!("{prefix}{digits}{}", "A".repeat(39))
}

/// Makes credentials that nobody could use and everybody can tell apart.
#[derive(Debug)]
pub(super) struct Stamp(pub(super) u64);

impl Mint for Stamp {
    fn mint(&mut self, _: &InstanceRef, _: &BoxPublicKey) -> Result<Minted, MintError> {
        self.0 += 1;
        Ok(Minted {
            key: user_key(self.0),
            credential: Sealed(self.0.to_be_bytes().to_vec()),
        })
    }
}
