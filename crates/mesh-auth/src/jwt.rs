//! NATS JWTs (version 2): what an operator-mode server reads a principal's rights from.
//!
//! An operator vouches for accounts, an account (or a signing key of it) for users. The form is that of
//! `github.com/nats-io/jwt/v2`: header, claims and an ed25519 signature over both, in base64url without padding.
//! Claims are values, their times included; issuing is a function of the claims and the issuer's key.

mod claims;
mod form;

pub use claims::{AccountClaims, Export, Import, JetStream, OperatorClaims, Traffic, UserClaims};

use std::{fmt, str::FromStr};

use data_encoding::{BASE32_NOPAD, BASE64URL_NOPAD};
use serde::{Serialize, de::DeserializeOwned};
use sha2::{Digest, Sha512_256};

use crate::keys::{AccountKey, AccountPublic, Key, KeyTextError, Kind, OperatorKey, UserPublic};

/// Issues a user's JWT, with the account's key or one of its signing keys.
pub fn user_jwt(claims: &UserClaims, signer: &AccountKey) -> UserJwt {
    let issuer = signer.public();
    // A server looks the account up by the issuer, unless told that a signing key of it signed.
    let issuer_account = (issuer != claims.account).then(|| claims.account.to_string());
    let form = form::Envelope {
        exp: claims.expires,
        iat: claims.issued_at,
        iss: issuer.to_string(),
        jti: String::new(),
        name: claims.name.clone(),
        nats: form::User::of(claims, issuer_account),
        sub: claims.subject.to_string(),
    };
    UserJwt {
        text: encode(form, signer),
        name: claims.name.clone(),
        subject: claims.subject.clone(),
        account: claims.account.clone(),
        issued_at: claims.issued_at,
        expires: claims.expires,
    }
}

/// Issues an account's JWT.
pub fn account_jwt(claims: &AccountClaims, signer: &OperatorKey) -> String {
    let form = form::Envelope {
        exp: None,
        iat: claims.issued_at,
        iss: signer.public().to_string(),
        jti: String::new(),
        name: claims.name.clone(),
        nats: form::Account::of(claims),
        sub: claims.subject.to_string(),
    };
    encode(form, signer)
}

/// Issues an operator's JWT, which it signs itself.
pub fn operator_jwt(claims: &OperatorClaims, operator: &OperatorKey) -> String {
    let form = form::Envelope {
        exp: None,
        iat: claims.issued_at,
        iss: operator.public().to_string(),
        jti: String::new(),
        name: claims.name.clone(),
        nats: form::Operator::of(claims),
        sub: operator.public().to_string(),
    };
    encode(form, operator)
}

/// A user's JWT: whole, and signed by the account (or signing key) it names. Worth nothing without the user's key.
#[derive(Clone, PartialEq, Eq)]
pub struct UserJwt {
    text: String,
    name: String,
    subject: UserPublic,
    account: AccountPublic,
    issued_at: u64,
    expires: Option<u64>,
}

impl UserJwt {
    /// The text a client sends.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The name it was issued under.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whose it is.
    pub fn subject(&self) -> &UserPublic {
        &self.subject
    }

    /// The account it admits to.
    pub fn account(&self) -> &AccountPublic {
        &self.account
    }

    /// When it was issued (unix seconds). A revocation concerns what was issued until its time.
    pub fn issued_at(&self) -> u64 {
        self.issued_at
    }

    /// When a server closes its connections (unix seconds), if ever.
    pub fn expires(&self) -> Option<u64> {
        self.expires
    }

    /// Refuses a JWT that a server with this `max_control_line` (4096 unless configured) could not read: it
    /// would close the connection before it knows whose it is.
    pub fn check_fits(&self, max_control_line: usize) -> Result<(), JwtTooLong> {
        let length = self.text.len() + CONNECT_REST;
        if length > max_control_line {
            return Err(JwtTooLong {
                name: self.name.clone(),
                length,
                max_control_line,
            });
        }
        Ok(())
    }
}

impl FromStr for UserJwt {
    type Err = ReadJwtError;

    fn from_str(text: &str) -> Result<Self, ReadJwtError> {
        let (signed, signature) = text.rsplit_once('.').ok_or(ReadJwtError::NotAJwt)?;
        let (header, claims) = signed.split_once('.').ok_or(ReadJwtError::NotAJwt)?;
        let header: form::Header = decode(header)?;
        if header.alg != form::ALGORITHM {
            return Err(ReadJwtError::Algorithm { found: header.alg });
        }
        let claims: form::Envelope<form::UserRead> = decode(claims)?;
        if (claims.nats.kind.as_str(), claims.nats.version) != ("user", form::VERSION) {
            return Err(ReadJwtError::NotAUser {
                kind: claims.nats.kind,
                version: claims.nats.version,
            });
        }
        let issuer: AccountPublic = claims.iss.parse().map_err(ReadJwtError::Key)?;
        let signature = BASE64URL_NOPAD
            .decode(signature.as_bytes())
            .map_err(|_| ReadJwtError::NotAJwt)?;
        if !issuer.verifies_raw(signed.as_bytes(), &signature) {
            return Err(ReadJwtError::Signature { issuer });
        }
        let account = claims.nats.issuer_account.as_deref().map(str::parse);
        Ok(Self {
            text: text.to_owned(),
            name: claims.name,
            subject: claims.sub.parse().map_err(ReadJwtError::Key)?,
            account: account
                .transpose()
                .map_err(ReadJwtError::Key)?
                .unwrap_or(issuer),
            issued_at: claims.iat,
            expires: claims.exp,
        })
    }
}

impl fmt::Debug for UserJwt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UserJwt")
            .field("name", &self.name)
            .field("subject", &self.subject)
            .finish_non_exhaustive()
    }
}

/// More rights than fit into the line in which a client introduces itself.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the credential of {name} needs a line of {length} bytes, and the server reads {max_control_line}; raise its \
     `max_control_line`, or let {name} have fewer grants"
)]
pub struct JwtTooLong {
    /// Whose it is.
    pub name: String,
    /// What its introduction takes, in bytes.
    pub length: usize,
    /// What the server takes.
    pub max_control_line: usize,
}

/// Why a text is no user's JWT.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadJwtError {
    /// Not three parts in base64url, or no claims in them.
    #[error("the credential holds no JWT; have it issued again")]
    NotAJwt,
    /// Signed in a way NATS does not read.
    #[error(
        "the JWT is signed with `{found}`, and NATS reads `{}`; have it issued again",
        form::ALGORITHM
    )]
    Algorithm {
        /// What its header names.
        found: String,
    },
    /// An account's, an operator's, or of another version.
    #[error(
        "the JWT is a {kind}'s of version {version}, and a user's of version {} belongs here",
        form::VERSION
    )]
    NotAUser {
        /// Whose it is.
        kind: String,
        /// The version of its form.
        version: u32,
    },
    /// Changed since it was issued, or never issued by whom it names.
    #[error("the JWT is not signed by its issuer {issuer}; have it issued again")]
    Signature {
        /// Who should have signed.
        issuer: AccountPublic,
    },
    /// A key in it is none.
    #[error("the JWT names something that is no key; have it issued again")]
    Key(#[source] KeyTextError),
}

fn encode<N: Serialize, K: Kind>(mut envelope: form::Envelope<N>, signer: &Key<K>) -> String {
    envelope.jti = BASE32_NOPAD.encode(&Sha512_256::digest(json(&envelope)));
    let header = form::Header {
        typ: "JWT".to_owned(),
        alg: form::ALGORITHM.to_owned(),
    };
    let mut text = BASE64URL_NOPAD.encode(&json(&header));
    text.push('.');
    BASE64URL_NOPAD.encode_append(&json(&envelope), &mut text);
    let signature = signer.sign_raw(text.as_bytes());
    text.push('.');
    BASE64URL_NOPAD.encode_append(&signature, &mut text);
    text
}

fn json<T: Serialize>(value: &T) -> Vec<u8> {
    #[expect(
        clippy::expect_used,
        reason = "the forms hold numbers, lists, and maps whose keys are strings"
    )]
    serde_json::to_vec(value).expect("the forms are JSON")
}

fn decode<T: DeserializeOwned>(part: &str) -> Result<T, ReadJwtError> {
    let bytes = BASE64URL_NOPAD
        .decode(part.as_bytes())
        .map_err(|_| ReadJwtError::NotAJwt)?;
    serde_json::from_slice(&bytes).map_err(|_| ReadJwtError::NotAJwt)
}

/// What `CONNECT` holds beside the JWT: the signature, the client's name and version, its options.
const CONNECT_REST: usize = 400;

#[cfg(test)]
mod tests;
