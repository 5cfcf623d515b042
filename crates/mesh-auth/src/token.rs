//! The one string that lets a host ask to become a node.
//!
//! `mesh1.` and then, in base64url without padding: the payload's length (three bytes, big endian), the payload
//! (postcard), and the first four bytes of its SHA-256. The length tells a paste that was cut short from one that
//! was altered; the digits of `mesh1` are the form's version.

use std::{fmt, str::FromStr};

use data_encoding::BASE64URL_NOPAD;
use mesh_model::{InvalidName, MeshName, NodeName, TokenId};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use crate::{
    keys::{KeyTextError, SigningPublic, UserKey},
    secret::SecretText,
    tls::CaFingerprint,
};

/// Everything a host needs to ask to become a node. Single-use, and secret until it is spent.
#[derive(Clone)]
pub struct Token {
    /// The mesh's name.
    pub mesh: MeshName,
    /// Where the bus is reached.
    pub urls: Vec<String>,
    /// The certificate authority the bus's certificate must come from; nothing for a bus on loopback that has none.
    pub ca: Option<CaFingerprint>,
    /// The token's id, under which the joiner asks.
    pub id: TokenId,
    /// The joiner's bootstrap credential.
    pub joiner: UserKey,
    /// Whose declarations the node will obey.
    pub controller: SigningPublic,
    /// The name the node must take, if the operator chose one.
    pub node: Option<NodeName>,
    /// The end of its use, in unix seconds.
    pub expires: u64,
}

impl Token {
    /// The string to hand to the host. There is no `Display`: a token is not printed by accident.
    pub fn render(&self) -> SecretText {
        let payload = self.payload();
        // A payload beyond 16 MB is no token; saturated, it reads as one cut short.
        let length =
            u32::try_from(payload.len()).map_or(MAX_PAYLOAD, |length| length.min(MAX_PAYLOAD));
        let [_, length @ ..] = length.to_be_bytes();
        let body = Zeroizing::new([&length[..], &payload, &checksum(&payload)].concat());
        let mut text = PREFIX.to_owned();
        text.reserve_exact(BASE64URL_NOPAD.encode_len(body.len()));
        BASE64URL_NOPAD.encode_append(&body, &mut text);
        SecretText::new(text)
    }

    /// Whether the token is of no more use at `now` (unix seconds).
    pub fn is_expired(&self, now: u64) -> bool {
        now >= self.expires
    }

    fn payload(&self) -> Zeroizing<Vec<u8>> {
        let form = FormV1 {
            mesh: self.mesh.as_str(),
            urls: self.urls.iter().map(String::as_str).collect(),
            ca: self.ca.map_or(NO_CA, |ca| *ca.as_bytes()),
            id: self.id.as_str(),
            joiner: &self.joiner.seed_bytes(),
            controller: &self.controller.to_bytes(),
            node: self.node.as_ref().map(NodeName::as_str),
            expires: self.expires,
        };
        #[expect(
            clippy::expect_used,
            reason = "postcard writes strings, bytes and numbers into memory, which it can"
        )]
        Zeroizing::new(postcard::to_allocvec(&form).expect("written into memory"))
    }

    fn from_payload(payload: &[u8]) -> Result<Self, ReadTokenError> {
        let (form, rest) =
            postcard::take_from_bytes::<FormV1<'_>>(payload).map_err(|_| ReadTokenError::Form)?;
        if !rest.is_empty() {
            return Err(ReadTokenError::Form);
        }
        Ok(Self {
            mesh: form.mesh.parse()?,
            urls: form.urls.into_iter().map(str::to_owned).collect(),
            ca: (form.ca != NO_CA).then(|| CaFingerprint::from_bytes(form.ca)),
            id: form.id.parse()?,
            joiner: UserKey::from_seed_bytes(form.joiner).map_err(ReadTokenError::Key)?,
            controller: SigningPublic::from_bytes(form.controller).map_err(ReadTokenError::Key)?,
            node: form.node.map(str::parse).transpose()?,
            expires: form.expires,
        })
    }
}

impl FromStr for Token {
    type Err = ReadTokenError;

    fn from_str(text: &str) -> Result<Self, ReadTokenError> {
        let body = unprefixed(text.trim())?.as_bytes();
        let missing = |expected: usize| ReadTokenError::CutShort {
            found: body.len(),
            expected,
        };
        let (head, _) = body.split_at_checked(HEAD).ok_or_else(|| missing(HEAD))?;
        let length = decode(head)?
            .iter()
            .fold(0_usize, |length, byte| length << 8 | usize::from(*byte));
        let expected = BASE64URL_NOPAD.encode_len(LENGTH_BYTES + length + CHECKSUM_BYTES);
        if body.len() < expected {
            decode_what_is_there(body)?;
            return Err(missing(expected));
        }
        if body.len() > expected {
            return Err(ReadTokenError::TooLong {
                found: body.len(),
                expected,
            });
        }
        let body = decode(body)?;
        let (_, rest) = body
            .split_at_checked(LENGTH_BYTES)
            .ok_or(ReadTokenError::Altered)?;
        let (payload, sum) = rest
            .split_at_checked(length)
            .ok_or(ReadTokenError::Altered)?;
        if sum != checksum(payload) {
            return Err(ReadTokenError::Altered);
        }
        Self::from_payload(payload)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Token")
            .field("id", &self.id)
            .field("mesh", &self.mesh)
            .finish_non_exhaustive()
    }
}

/// Why a text is no token. It carries positions and lengths, and nothing of the text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadTokenError {
    /// Something else was pasted.
    #[error("this is no token: one begins with `{PREFIX}`; `meshctl token create` prints one")]
    NotAToken,
    /// Made by a later release.
    #[error(
        "the token is of form {found}, and this release reads form 1; install the release the controller runs"
    )]
    Newer {
        /// Its form.
        found: u32,
    },
    /// The end is missing.
    #[error(
        "the token is cut short: {found} characters after `{PREFIX}`, where at least {expected} belong; copy it whole"
    )]
    CutShort {
        /// Characters there are.
        found: usize,
        /// Characters there must be.
        expected: usize,
    },
    /// Something was pasted behind it.
    #[error(
        "the token goes on after its end: {found} characters after `{PREFIX}`, where {expected} belong; copy it alone"
    )]
    TooLong {
        /// Characters there are.
        found: usize,
        /// Characters there must be.
        expected: usize,
    },
    /// A character no token has, such as a space inside.
    #[error("character {position} after `{PREFIX}` belongs in no token; copy it again")]
    Character {
        /// Counted from 1.
        position: usize,
    },
    /// Whole in length, but not what was printed.
    #[error("the token was altered: its checksum does not fit; copy it again")]
    Altered,
    /// The checksum fits, the content does not: no release wrote it.
    #[error("the token's content is in no form this release reads; create another one")]
    Form,
    /// The checksum fits, but a name in it is none.
    #[error("the token's content is wrong; create another one")]
    Name(#[from] InvalidName),
    /// The checksum fits, but a key in it is none.
    #[error("the token's content is wrong; create another one")]
    Key(#[source] KeyTextError),
}

/// What form 1 holds, in the order postcard writes it.
#[derive(Serialize, Deserialize)]
struct FormV1<'a> {
    mesh: &'a str,
    #[serde(borrow)]
    urls: Vec<&'a str>,
    ca: [u8; 32],
    id: &'a str,
    joiner: &'a [u8],
    controller: &'a [u8],
    node: Option<&'a str>,
    expires: u64,
}

/// What follows `mesh1.`, or why there is none.
fn unprefixed(text: &str) -> Result<&str, ReadTokenError> {
    if let Some(body) = text.strip_prefix(PREFIX) {
        return Ok(body);
    }
    let form = text
        .strip_prefix("mesh")
        .and_then(|rest| rest.split_once('.'))
        .map(|(form, _)| form);
    match form.and_then(|form| form.parse().ok()) {
        Some(found) if found > 1 => Err(ReadTokenError::Newer { found }),
        _ => Err(ReadTokenError::NotAToken),
    }
}

/// Names a wrong character in a text that is too short anyway: it may be why.
fn decode_what_is_there(body: &[u8]) -> Result<(), ReadTokenError> {
    let is_wrong = |byte: &u8| !byte.is_ascii_alphanumeric() && !matches!(byte, b'-' | b'_');
    match body.iter().position(is_wrong) {
        Some(before) => Err(ReadTokenError::Character {
            position: before + 1,
        }),
        None => Ok(()),
    }
}

fn decode(text: &[u8]) -> Result<Zeroizing<Vec<u8>>, ReadTokenError> {
    BASE64URL_NOPAD
        .decode(text)
        .map(Zeroizing::new)
        .map_err(|error| match error.kind {
            data_encoding::DecodeKind::Symbol => ReadTokenError::Character {
                position: error.position + 1,
            },
            _ => ReadTokenError::Altered,
        })
}

fn checksum(payload: &[u8]) -> [u8; CHECKSUM_BYTES] {
    let [a, b, c, d, ..]: [u8; 32] = Sha256::digest(payload).into();
    [a, b, c, d]
}

const PREFIX: &str = "mesh1.";
/// What stands in form 1 where a bus has no authority: no certificate is known whose hash that is.
const NO_CA: [u8; 32] = [0; 32];
const LENGTH_BYTES: usize = 3;
const CHECKSUM_BYTES: usize = 4;
/// Characters that hold the length: four, exactly.
const HEAD: usize = 4;
const MAX_PAYLOAD: u32 = 0x00ff_ffff;

#[cfg(test)]
mod tests;
