//! A password as an operator lists it.

use data_encoding::HEXLOWER_PERMISSIVE;
use mesh_derive::render::rabbitmq::PasswordHash;

/// The salt a password is hashed with, listed so that equal input gives equal bytes; or why a text is none.
pub(super) fn salt(text: &str) -> Result<[u8; 4], String> {
    let salt = HEXLOWER_PERMISSIVE.decode(text.as_bytes()).ok();
    let salt = salt.and_then(|bytes| bytes.try_into().ok());
    salt.ok_or_else(|| "salt is not four bytes: write eight hex digits".to_owned())
}

/// What a broker keeps of a password; or why it is none to keep.
pub(super) fn hash(password: &str, salt: [u8; 4]) -> Result<PasswordHash, String> {
    let length = password.chars().count();
    if length < SHORTEST {
        return Err(format!(
            "password has {length} characters: it is hashed once, so take {SHORTEST} or more that were generated"
        ));
    }
    Ok(PasswordHash::new(salt, password))
}

/// Characters a password has at least: 16 random bytes in hex.
const SHORTEST: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_long_and_its_salt_four_bytes() {
        let hash = |password: &str, text: &str| hash(password, salt(text)?);
        let long = "0123456789abcdef0123456789abcdef";
        let expected = PasswordHash::new([0, 1, 0xfe, 0xff], long);
        assert_eq!(hash(long, "0001feFF").unwrap(), expected);
        for (password, salt) in [(long, "0001fe"), (long, "x001feff"), ("short", "0001feff")] {
            assert!(hash(password, salt).is_err(), "{password} {salt}");
        }
    }
}
