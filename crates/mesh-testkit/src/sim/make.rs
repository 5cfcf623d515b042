//! Names, keys and credentials of a made-up world.

use std::fmt::Debug;
use std::str::FromStr;

use mesh_control::{Mint, MintError, Minted};
use mesh_model::{BoxPublicKey, BusKind, Principal, PublicKey, Sealed};

#[expect(
    clippy::expect_used,
    reason = "the simulator's own words, each of them a valid name"
)]
pub(super) fn named<T: FromStr<Err: Debug>>(text: &str) -> T {
    text.parse().expect("the simulator's own words are valid")
}

/// A user's key, told from any other by its number.
pub(super) fn user_key(number: u64) -> PublicKey {
    PublicKey::from_raw(raw(number))
}

/// A key to seal to, told from any other by its number.
pub(super) fn box_key(number: u64) -> BoxPublicKey {
    BoxPublicKey::from_raw(raw(number))
}

fn raw(number: u64) -> [u8; 32] {
    let mut raw = [0; 32];
    for (place, byte) in raw.iter_mut().zip(number.to_be_bytes()) {
        *place = byte;
    }
    raw
}

/// Makes credentials that nobody could use and everybody can tell apart.
#[derive(Debug)]
pub(super) struct Stamp(pub(super) u64);

impl Mint for Stamp {
    fn mint(&mut self, _: &Principal, _: BusKind, _: &BoxPublicKey) -> Result<Minted, MintError> {
        self.0 += 1;
        Ok(Minted {
            key: user_key(self.0),
            credential: Sealed(self.0.to_be_bytes().to_vec()),
        })
    }

    fn reseal(
        &mut self,
        _: &Principal,
        _: &Sealed,
        to: &BoxPublicKey,
    ) -> Result<Sealed, MintError> {
        self.0 += 1;
        let whose = to.as_str().as_bytes();
        Ok(Sealed([whose, &self.0.to_be_bytes()].concat()))
    }
}
