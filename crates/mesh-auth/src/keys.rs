//! The keys of the mesh, one type per use, in the nkey text forms NATS reads.
//!
//! | key | signs or opens | public text | seed text |
//! |---|---|---|---|
//! | [`UserKey`] | a server's challenge: a node, a module's instance, a joiner | `U…` | `SU…` |
//! | [`SigningKey`] | declarations | `V…` | `SV…` |
//! | [`AccountKey`] | user JWTs | `A…` | `SA…` |
//! | [`OperatorKey`] | account JWTs | `O…` | `SO…` |
//! | [`BoxKey`] | secrets sealed to a node | `X…` | `SX…` |
//!
//! The controller's [`SigningKey`] is of the nkey type *service*, which no NATS server accepts as a credential
//! and no JWT as an issuer: it can be mistaken for nothing else.
//!
//! Text handed out by `seed()` is wiped when dropped, and so is the secret inside a [`BoxKey`]. The copy nkeys
//! keeps inside an ed25519 key pair is not: nkeys 0.4 has no way to.

use std::{fmt, marker::PhantomData, str::FromStr};

use data_encoding::BASE32_NOPAD;
use nkeys::{KeyPair, KeyPairType, XKey};
use zeroize::Zeroizing;

use crate::{
    entropy::{EntropyError, random},
    secret::SecretText,
};

/// What a key is for. Implemented by the marker types of this module.
pub trait Kind: fmt::Debug + Clone + Copy + PartialEq + Eq + PartialOrd + Ord + 'static {
    /// How a message names such a key: "user", "bus operator", …
    const NAME: &'static str;
    /// The first letter of the public text, and the second of the seed's.
    const LETTER: char;
    /// The nkey type.
    #[doc(hidden)]
    const TYPE: KeyPairType;
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident $name:literal $letter:literal $type:ident)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $kind {}
        impl Kind for $kind {
            const NAME: &'static str = $name;
            const LETTER: char = $letter;
            const TYPE: KeyPairType = KeyPairType::$type;
        }
    )*};
}

kinds! {
    /// A client of the bus.
    User "user" 'U' User
    /// The controller as the author of declarations.
    Controller "controller's signing" 'V' Service
    /// An account of the bus, or one of its signing keys.
    Account "bus account" 'A' Account
    /// The operator of a bus.
    Operator "bus operator" 'O' Operator
    /// The receiver of sealed secrets.
    Box "box" 'X' Curve
}

/// Authenticates a client to the bus.
pub type UserKey = Key<User>;
/// The controller's key for declarations.
pub type SigningKey = Key<Controller>;
/// Issues user JWTs.
pub type AccountKey = Key<Account>;
/// Issues account JWTs.
pub type OperatorKey = Key<Operator>;
/// The public half of a [`UserKey`].
pub type UserPublic = Public<User>;
/// The public half of a [`SigningKey`], pinned by a node at enrolment.
pub type SigningPublic = Public<Controller>;
/// The public half of an [`AccountKey`].
pub type AccountPublic = Public<Account>;
/// The public half of an [`OperatorKey`].
pub type OperatorPublic = Public<Operator>;
/// The public half of a [`BoxKey`].
pub type BoxPublic = Public<Box>;

/// An ed25519 key pair for one use.
#[derive(Clone)]
pub struct Key<K: Kind> {
    pair: KeyPair,
    kind: PhantomData<K>,
}

impl<K: Kind> Key<K> {
    /// A new key from the operating system's randomness.
    pub fn generate() -> Result<Self, EntropyError> {
        Ok(Self::from_raw(*random::<32>()?))
    }

    /// The key of this seed's text (`SU…` for a user).
    pub fn from_seed(seed: &str) -> Result<Self, KeyTextError> {
        check_text::<K>(seed, Half::Seed)?;
        match KeyPair::from_seed(seed) {
            Ok(pair) if pair.key_pair_type() == K::TYPE => Ok(Self {
                pair,
                kind: PhantomData,
            }),
            _ => Err(KeyTextError::malformed::<K>(Half::Seed)),
        }
    }

    /// The half that may be shown.
    pub fn public(&self) -> Public<K> {
        Public {
            text: self.pair.public_key(),
            kind: PhantomData,
        }
    }

    /// The seed's text, for writing to a file.
    #[expect(clippy::missing_panics_doc, reason = "it cannot: see the proof below")]
    pub fn seed(&self) -> SecretText {
        #[expect(
            clippy::expect_used,
            reason = "every constructor of `Key` gives the pair its seed"
        )]
        SecretText::new(self.pair.seed().expect("the pair has its seed"))
    }

    /// The bytes under the seed's base32: kind, seed, checksum.
    pub(crate) fn seed_bytes(&self) -> Zeroizing<Vec<u8>> {
        #[expect(clippy::expect_used, reason = "nkeys made the text by encoding")]
        Zeroizing::new(
            BASE32_NOPAD
                .decode(self.seed().expose().as_bytes())
                .expect("encoded by nkeys"),
        )
    }

    pub(crate) fn from_seed_bytes(bytes: &[u8]) -> Result<Self, KeyTextError> {
        Self::from_seed(SecretText::new(BASE32_NOPAD.encode(bytes)).expose())
    }

    /// An ed25519 signature of exactly these bytes: a bus's challenge, a JWT. Declarations go through
    /// [`sign`](crate::sign), which separates them from everything else.
    pub(crate) fn sign_raw(&self, bytes: &[u8]) -> [u8; 64] {
        #[expect(
            clippy::expect_used,
            reason = "the pair has its seed, and an ed25519 signature has 64 bytes"
        )]
        let signature = self
            .pair
            .sign(bytes)
            .expect("the pair has its seed")
            .try_into()
            .expect("64 bytes");
        signature
    }

    fn from_raw(raw: [u8; 32]) -> Self {
        #[expect(
            clippy::expect_used,
            reason = "any 32 bytes are an ed25519 seed; nkeys always answers Ok"
        )]
        let pair = KeyPair::new_from_raw(K::TYPE, raw).expect("any 32 bytes are a seed");
        Self {
            pair,
            kind: PhantomData,
        }
    }
}

impl UserKey {
    /// Answers a NATS server's challenge (the `nonce` of its `INFO`) with the raw signature.
    pub fn answer(&self, nonce: &[u8]) -> [u8; 64] {
        self.sign_raw(nonce)
    }
}

impl<K: Kind> fmt::Debug for Key<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({}, seed redacted)", self.pair.public_key())
    }
}

/// An x25519 key pair that opens what was sealed to it.
#[derive(Clone)]
pub struct BoxKey(XKey);

impl BoxKey {
    /// A new key from the operating system's randomness.
    pub fn generate() -> Result<Self, EntropyError> {
        Ok(Self(XKey::new_from_raw(*random::<32>()?)))
    }

    /// The key of this seed's text (`SX…`).
    pub fn from_seed(seed: &str) -> Result<Self, KeyTextError> {
        check_text::<Box>(seed, Half::Seed)?;
        XKey::from_seed(seed)
            .map(Self)
            .map_err(|_| KeyTextError::malformed::<Box>(Half::Seed))
    }

    /// The half that may be shown.
    pub fn public(&self) -> BoxPublic {
        Public {
            text: self.0.public_key(),
            kind: PhantomData,
        }
    }

    /// The seed's text, for writing to a file.
    #[expect(clippy::missing_panics_doc, reason = "it cannot: see the proof below")]
    pub fn seed(&self) -> SecretText {
        #[expect(
            clippy::expect_used,
            reason = "every constructor of `BoxKey` gives it its secret half"
        )]
        SecretText::new(self.0.seed().expect("the key has its secret half"))
    }

    pub(crate) fn xkey(&self) -> &XKey {
        &self.0
    }
}

impl fmt::Debug for BoxKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BoxKey({}, seed redacted)", self.0.public_key())
    }
}

/// The public half of a key, checked when read: kind, length and checksum.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Public<K: Kind> {
    text: String,
    kind: PhantomData<K>,
}

impl<K: Kind> Public<K> {
    /// The text form.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The bytes under the base32: kind, key, checksum.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        #[expect(
            clippy::expect_used,
            reason = "the text was decoded when the value was made"
        )]
        BASE32_NOPAD
            .decode(self.text.as_bytes())
            .expect("checked when read")
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Self, KeyTextError> {
        BASE32_NOPAD.encode(bytes).parse()
    }

    /// Whether `signature` is this key's, of exactly these bytes.
    pub(crate) fn verifies_raw(&self, bytes: &[u8], signature: &[u8]) -> bool {
        KeyPair::from_public_key(&self.text).is_ok_and(|pair| pair.verify(bytes, signature).is_ok())
    }
}

impl<K: Kind> FromStr for Public<K> {
    type Err = KeyTextError;

    fn from_str(text: &str) -> Result<Self, KeyTextError> {
        check_text::<K>(text, Half::Public)?;
        let malformed = || KeyTextError::malformed::<K>(Half::Public);
        let is_whole = match K::TYPE {
            KeyPairType::Curve => XKey::from_public_key(text).is_ok(),
            _ => KeyPair::from_public_key(text).is_ok(),
        };
        let text = is_whole.then(|| text.to_owned()).ok_or_else(malformed)?;
        Ok(Self {
            text,
            kind: PhantomData,
        })
    }
}

impl<K: Kind> fmt::Display for Public<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl<K: Kind> fmt::Debug for Public<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl<K: Kind> serde::Serialize for Public<K> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl<'de, K: Kind> serde::Deserialize<'de> for Public<K> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// Which half of a key a text was read as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Half {
    /// May be shown.
    Public,
    /// Must not.
    Seed,
}

impl Half {
    /// The length of the text (nkeys: 35 or 36 bytes in base32).
    const fn length(self) -> usize {
        match self {
            Self::Public => 56,
            Self::Seed => 58,
        }
    }
}

impl fmt::Display for Half {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Public => "public key",
            Self::Seed => "seed",
        })
    }
}

/// Why a text is no key. Nothing of the text is carried: it may be a seed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyTextError {
    /// Cut short, or something else altogether.
    #[error("not a whole {kind} {half}: one has {} characters, first `{start}`; this text has {found}", half.length())]
    Length {
        /// What was to be read.
        kind: &'static str,
        /// Which half of it.
        half: Half,
        /// How such a text begins.
        start: String,
        /// How many characters there were.
        found: usize,
    },
    /// A key, but for another use.
    #[error(
        "not a {kind} {half}: one begins with `{start}`; this text is a key for another use, or none"
    )]
    Kind {
        /// What was to be read.
        kind: &'static str,
        /// Which half of it.
        half: Half,
        /// How such a text begins.
        start: String,
    },
    /// Of the right form, but a character was changed.
    #[error("the {kind} {half} has a wrong checksum or character; copy it again")]
    Malformed {
        /// What was to be read.
        kind: &'static str,
        /// Which half of it.
        half: Half,
    },
}

impl KeyTextError {
    fn malformed<K: Kind>(half: Half) -> Self {
        Self::Malformed {
            kind: K::NAME,
            half,
        }
    }
}

/// Refuses a text whose length or first letters are not such a key's; nkeys checks the rest.
fn check_text<K: Kind>(text: &str, half: Half) -> Result<(), KeyTextError> {
    let start = match half {
        Half::Public => K::LETTER.to_string(),
        Half::Seed => format!("S{}", K::LETTER),
    };
    if text.len() != half.length() {
        return Err(KeyTextError::Length {
            kind: K::NAME,
            half,
            start,
            found: text.chars().count(),
        });
    }
    if !text.starts_with(&start) {
        return Err(KeyTextError::Kind {
            kind: K::NAME,
            half,
            start,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests;
