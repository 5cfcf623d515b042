//! The file a client of the bus authenticates with (`node.creds`, a module instance's `MESH_CREDS`).
//!
//! Two forms, both of them NATS's own, so that its tools read them too. On a managed bus, where the server knows
//! the public key, the file is one line: the seed (`SU…`). In operator mode it is a `.creds` file: the user's JWT
//! and its seed, each between its marks.

use std::path::Path;

use crate::{
    jwt::{ReadJwtError, UserJwt},
    keyfile::{KeyFileError, read_secret, write_secret},
    keys::{KeyTextError, UserKey, UserPublic},
    secret::SecretText,
};

/// What proves a principal to the bus.
#[derive(Debug, Clone)]
pub enum Credentials {
    /// A key whose public half the server knows.
    Nkey(UserKey),
    /// A key, and the JWT that vouches for it.
    Jwt(VouchedKey),
}

impl Credentials {
    /// Reads the text of either form.
    pub fn parse(text: &str) -> Result<Self, CredentialsError> {
        let jwt = between(text, "JWT");
        let Some(jwt) = jwt else {
            let seed = between(text, "SEED")
                .or_else(|| alone(text))
                .ok_or(CredentialsError::NoSeed)?;
            return Ok(Self::Nkey(UserKey::from_seed(seed)?));
        };
        let seed = between(text, "SEED").ok_or(CredentialsError::NoSeed)?;
        Ok(Self::Jwt(VouchedKey::new(
            jwt.parse()?,
            UserKey::from_seed(seed)?,
        )?))
    }

    /// The file's text.
    pub fn render(&self) -> SecretText {
        SecretText::new(match self {
            Self::Nkey(key) => format!("{}\n", key.seed().expose()),
            Self::Jwt(VouchedKey { jwt, key }) => format!(
                "-----BEGIN NATS USER JWT-----\n{}\n------END NATS USER JWT------\n\n\
                 -----BEGIN USER NKEY SEED-----\n{}\n------END USER NKEY SEED------\n",
                jwt.as_str(),
                key.seed().expose(),
            ),
        })
    }

    /// Reads a file, which nobody but its owner may reach.
    pub fn read(path: &Path) -> Result<Self, CredentialsFileError> {
        let text = read_secret(path)?;
        let in_file = |source| CredentialsFileError::Content {
            path: path.to_owned(),
            source,
        };
        Self::parse(text.expose()).map_err(in_file)
    }

    /// Writes the file, for its owner alone.
    pub fn write(&self, path: &Path) -> Result<(), KeyFileError> {
        write_secret(path, &self.render())
    }

    /// The key that answers the server's challenge.
    pub fn key(&self) -> &UserKey {
        match self {
            Self::Nkey(key) | Self::Jwt(VouchedKey { key, .. }) => key,
        }
    }
}

/// A key and a JWT for exactly this key.
#[derive(Debug, Clone)]
pub struct VouchedKey {
    jwt: UserJwt,
    key: UserKey,
}

impl VouchedKey {
    /// Puts the two together, if they belong together.
    pub fn new(jwt: UserJwt, key: UserKey) -> Result<Self, CredentialsError> {
        if *jwt.subject() != key.public() {
            return Err(CredentialsError::OtherKey {
                jwt: jwt.subject().clone(),
                key: key.public(),
            });
        }
        Ok(Self { jwt, key })
    }

    /// The JWT.
    pub fn jwt(&self) -> &UserJwt {
        &self.jwt
    }

    /// The key.
    pub fn key(&self) -> &UserKey {
        &self.key
    }
}

/// Why a text holds no credentials.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CredentialsError {
    /// Neither a lone seed nor one between its marks.
    #[error(
        "no seed is in the credentials: neither one line `SU…`, nor one between `BEGIN` and `END` marks"
    )]
    NoSeed,
    /// What stands in its place is none.
    #[error("the credentials hold no user's seed")]
    Seed(#[from] KeyTextError),
    /// What stands in its place is none.
    #[error("the credentials hold no user's JWT")]
    Jwt(#[from] ReadJwtError),
    /// Halves of two credentials.
    #[error("the credentials hold a JWT for {jwt} and the seed of {key}; have them issued again")]
    OtherKey {
        /// Whom the JWT vouches for.
        jwt: UserPublic,
        /// Whose the seed is.
        key: UserPublic,
    },
}

/// Why a file of credentials was not read.
#[derive(Debug, thiserror::Error)]
pub enum CredentialsFileError {
    /// The file itself.
    #[error(transparent)]
    File(#[from] KeyFileError),
    /// What is in it.
    #[error("{} holds no credentials", path.display())]
    Content {
        /// The file.
        path: std::path::PathBuf,
        /// What is wrong with it.
        source: CredentialsError,
    },
}

/// The line behind `-----BEGIN … <what>-----`.
fn between<'a>(text: &'a str, what: &str) -> Option<&'a str> {
    let mut lines = text.lines().map(str::trim);
    lines.find(|line| {
        line.strip_prefix("---").is_some_and(|line| {
            line.contains("BEGIN ") && line.trim_end_matches('-').ends_with(what)
        })
    })?;
    lines
        .find(|line| !line.is_empty())
        .filter(|line| !line.starts_with("---"))
}

/// The only line, apart from remarks.
fn alone(text: &str) -> Option<&str> {
    let mut lines = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.next().filter(|_| lines.next().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        jwt::{UserClaims, user_jwt},
        keys::AccountKey,
    };

    fn jwt(subject: UserPublic) -> UserJwt {
        let account = AccountKey::generate().unwrap();
        let claims = UserClaims {
            name: "node/web-1".to_owned(),
            subject,
            account: account.public(),
            publish: vec![],
            subscribe: vec![],
            issued_at: 1_796_000_000,
            expires: None,
        };
        user_jwt(&claims, &account)
    }

    #[test]
    fn both_forms_come_back_from_a_file_of_their_owner() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("node.creds");
        let key = UserKey::generate().unwrap();
        Credentials::Nkey(key.clone()).write(&path).unwrap();
        let Credentials::Nkey(read) = Credentials::read(&path).unwrap() else {
            panic!("a bare seed")
        };
        assert_eq!(read.public(), key.public());

        let vouched = VouchedKey::new(jwt(key.public()), key.clone()).unwrap();
        Credentials::Jwt(vouched.clone()).write(&path).unwrap();
        let Credentials::Jwt(read) = Credentials::read(&path).unwrap() else {
            panic!("a JWT and a seed")
        };
        assert_eq!(
            (read.jwt(), read.key().public()),
            (vouched.jwt(), key.public())
        );
        assert_eq!(Credentials::Jwt(read).key().public(), key.public());
    }

    #[test]
    fn what_other_tools_write_is_read() {
        let key = UserKey::generate().unwrap();
        let jwt = jwt(key.public());
        let (seed, jwt) = (key.seed(), jwt.as_str());
        let seed = seed.expose();
        // As nsc writes it, with its warning, and with Windows' line ends.
        let nsc = format!(
            "-----BEGIN NATS USER JWT-----\n{jwt}\n------END NATS USER JWT------\n\n\
             ************************* IMPORTANT *************************\n\
             NKEY Seed printed below can be used to sign and prove identity.\n\
             NKEYs are sensitive and should be treated as secrets.\n\n\
             -----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n\n\
             *************************************************************\n"
        );
        for text in [nsc.replace('\n', "\r\n"), nsc] {
            assert!(matches!(Credentials::parse(&text), Ok(Credentials::Jwt(_))));
        }
        let marked =
            format!("-----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n");
        for text in [
            seed.to_owned(),
            format!("# of web-1\n\n  {seed}  \n"),
            marked,
        ] {
            assert!(matches!(
                Credentials::parse(&text),
                Ok(Credentials::Nkey(_))
            ));
        }
    }

    #[test]
    fn what_holds_no_credentials_says_why_without_repeating_it() {
        let [key, other] = [UserKey::generate().unwrap(), UserKey::generate().unwrap()];
        let whole =
            Credentials::Jwt(VouchedKey::new(jwt(key.public()), key.clone()).unwrap()).render();
        let seed = key.seed();
        let (jwt_alone, _) = whole.expose().split_once("\n\n").unwrap();
        let account = AccountKey::generate().unwrap().seed();
        let rows = [
            (String::new(), CredentialsError::NoSeed),
            (
                format!("{}\n{}", seed.expose(), seed.expose()),
                CredentialsError::NoSeed,
            ),
            (jwt_alone.to_owned(), CredentialsError::NoSeed),
            (
                account.expose().to_owned(),
                UserKey::from_seed(account.expose()).unwrap_err().into(),
            ),
            (
                whole.expose().replace("eyJ", "fyJ"),
                ReadJwtError::NotAJwt.into(),
            ),
            (
                whole.expose().replace(seed.expose(), other.seed().expose()),
                CredentialsError::OtherKey {
                    jwt: key.public(),
                    key: other.public(),
                },
            ),
        ];
        for (text, expected) in rows {
            let error = Credentials::parse(&text).unwrap_err();
            assert_eq!(error, expected);
            let printed = format!("{error} {error:?}");
            assert!(
                !printed.contains(seed.expose()) && !printed.contains(account.expose()),
                "{printed}"
            );
        }
        let printed = format!("{:?}", Credentials::parse(whole.expose()).unwrap());
        assert!(!printed.contains(seed.expose()), "{printed}");
    }
}
