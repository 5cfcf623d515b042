//! A password as an operator lists it.

use anyhow::{Context, bail};
use data_encoding::HEXLOWER_PERMISSIVE;
use mesh_derive::render::rabbitmq::PasswordHash;

/// What it is, and the salt it is hashed with, so that equal input gives equal bytes.
pub(super) struct Password {
    pub(super) password: String,
    pub(super) salt: String,
}

impl Password {
    pub(super) fn hash(&self) -> anyhow::Result<PasswordHash> {
        let salt = HEXLOWER_PERMISSIVE.decode(self.salt.as_bytes()).ok();
        let salt: Option<[u8; 4]> = salt.and_then(|bytes| bytes.try_into().ok());
        let salt = salt.context("salt is not four bytes: write eight hex digits")?;
        if self.password.len() < SHORTEST {
            bail!(
                "password has {} characters: it is hashed once, so take {SHORTEST} or more that were generated",
                self.password.len()
            );
        }
        Ok(PasswordHash::new(salt, &self.password))
    }
}

/// Characters a password has at least: 16 random bytes in hex.
const SHORTEST: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_long_and_its_salt_four_bytes() {
        let hash = |password: &str, salt: &str| {
            let (password, salt) = (password.to_owned(), salt.to_owned());
            Password { password, salt }.hash()
        };
        let long = "0123456789abcdef0123456789abcdef";
        let expected = PasswordHash::new([0, 1, 0xfe, 0xff], long);
        assert_eq!(hash(long, "0001feFF").unwrap(), expected);
        for (password, salt) in [(long, "0001fe"), (long, "x001feff"), ("short", "0001feff")] {
            assert!(hash(password, salt).is_err(), "{password} {salt}");
        }
    }
}
