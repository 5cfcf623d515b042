//! Secrets an operator sets: what one may be called, and what the controller keeps of it.

use serde::{Deserialize, Serialize};

use crate::text::texts;
use crate::{Sealed, Timestamp};

/// A text that no secret may be called.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "secret name {0:?}: it has 1 to 63 of A-Z, 0-9 and '_', begins with a letter, and not with MESH_, whose names the mesh \
     gives"
)]
pub struct InvalidSecretName(String);

texts! {
    /// What a secret is called, as a variable would be: `SMTP_PASSWORD`.
    SecretName or InvalidSecretName;
}

impl SecretName {
    /// Takes a text as a secret's name.
    pub fn new(text: impl Into<String>) -> Result<Self, InvalidSecretName> {
        let text = text.into();
        let any = |b: u8| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_';
        let good = text.len() <= 63
            && text.bytes().next().is_some_and(|b| b.is_ascii_uppercase())
            && text.bytes().all(any)
            && !text.starts_with("MESH_");
        if good {
            Ok(Self(text.into()))
        } else {
            Err(InvalidSecretName(text))
        }
    }
}

/// A secret, as the controller keeps it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecretRecord {
    /// Which value it is: it grows with each, and never comes twice under one name.
    pub version: u64,
    /// When it was set.
    pub set: Timestamp,
    /// The value, sealed to the controller's own key.
    pub sealed: Sealed,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_called_as_a_variable_would_be() {
        let long = "A".repeat(63);
        for text in ["SMTP_PASSWORD", "A", "A1_", "MESHED", &long] {
            assert_eq!(SecretName::new(text).unwrap().as_str(), text);
        }
        let longer = "A".repeat(64);
        for text in [
            "",
            "1A",
            "_A",
            "a",
            "A-B",
            "A.B",
            "A/B",
            "A\n",
            "MESH_CREDS",
            &longer,
        ] {
            let refused = SecretName::new(text).unwrap_err().to_string();
            assert!(refused.contains("begins with a letter"), "{refused}");
        }
    }
}
