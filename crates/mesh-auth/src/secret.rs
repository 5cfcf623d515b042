//! Text and bytes nobody may see by accident.

use std::fmt;

use zeroize::Zeroizing;

/// Secret text: a seed, a token, a private key in PEM. Wiped when dropped, redacted in `Debug`.
#[derive(Clone)]
pub struct SecretText(Zeroizing<String>);

impl SecretText {
    /// Takes hold of `text`.
    pub fn new(text: String) -> Self {
        Self(Zeroizing::new(text))
    }

    /// The text itself, for the one who must write, send or use it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SecretText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretText(redacted)")
    }
}

/// Secret bytes: what was sealed, opened. Wiped when dropped, redacted in `Debug`.
#[derive(Clone)]
pub struct SecretBytes(Zeroizing<Vec<u8>>);

impl SecretBytes {
    /// Takes hold of `bytes`.
    pub fn new(bytes: Vec<u8>) -> Self {
        Self(Zeroizing::new(bytes))
    }

    /// The bytes themselves, for the one who must write, send or use them.
    pub fn expose(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for SecretBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretBytes(redacted)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_is_not_printed() {
        let text = SecretText::new("hunter2".to_owned());
        let bytes = SecretBytes::new(b"hunter2".to_vec());
        let printed = format!("{text:?} {text:#?} {bytes:?} {bytes:#?}");
        assert!(
            !printed.contains("hunter2") && !printed.contains("104"),
            "{printed}"
        );
        assert_eq!(text.expose(), "hunter2");
        assert_eq!(bytes.expose(), b"hunter2");
    }
}
