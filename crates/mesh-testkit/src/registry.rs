//! A registry of images of the tests' own, on loopback, with what stands in its way.

mod image;
mod proxy;

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use data_encoding::BASE64;

use crate::http::{self, Answer, Ask, At};
use crate::keeper::Keeper;

pub use image::{Image, Layer, Pushed};
pub use proxy::{Flow, Proxy};

/// The package of Debian whose program it is, and the program.
pub const PACKAGE: &str = "docker-registry";

/// Whom it serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Auth {
    /// Everybody.
    None,
    /// Who has a login: [`Registry::USER`] with [`Registry::PASSWORD`].
    Basic,
}

/// A registry that is really there.
#[derive(Debug)]
pub struct Registry {
    at: SocketAddr,
    auth: Auth,
    dir: PathBuf,
    keeper: Keeper,
}

/// Starts the registry when it is told, and ends it with whoever told.
const SHELL: &str = r#"
dir=$1 program=$2
exec 2>> "$dir/out"
while read -r told; do
  case "$told" in
    start) "$program" serve "$dir/config.yml" < /dev/null >> "$dir/out" 2>&1 & registry=$! ;;
    kill) kill -9 "$registry"; wait "$registry"; registry= ;;
  esac
  echo "$told"
done
[ -z "$registry" ] || kill -9 "$registry"
wait
rm -rf "$dir"
"#;

impl Registry {
    /// Who may pull and push.
    pub const USER: &'static str = "puller";
    /// With this password.
    pub const PASSWORD: &'static str = "of-a-test";
    /// What the registry knows of that: its bcrypt, which only its user needs to be quick.
    const HASH: &'static str = "$2b$05$saltsaltsaltsaltsalt.OOX3z4J/SrlgZ4AFfDZ9knMFog9QX4Fi";

    /// Starts one, and waits until it serves. That it is not installed is an error: who starts an engine wants one.
    pub fn start(auth: Auth) -> anyhow::Result<Self> {
        let program = crate::program::found(PACKAGE).with_context(|| {
            format!("{PACKAGE} is not installed; `cargo xtask setup` installs it")
        })?;
        let at = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
        let dir = tempfile::Builder::new()
            .prefix("mesh-registry-")
            .tempdir()?;
        let folder = dir.path().display().to_string();
        let auth_by = if auth == Auth::Basic {
            let users = format!("{}:{}\n", Self::USER, Self::HASH);
            fs::write(dir.path().join("users"), users)?;
            format!("auth:\n  htpasswd:\n    realm: tests\n    path: {folder}/users\n")
        } else {
            String::new()
        };
        let config = format!(
            "version: 0.1\nlog:\n  level: warn\nstorage:\n  filesystem:\n    rootdirectory: {folder}/data\n  \
             delete:\n    enabled: true\nhttp:\n  addr: {at}\n  secret: of-a-test\n{auth_by}"
        );
        fs::write(dir.path().join("config.yml"), config)?;
        let program = program.to_str().context("a program has a name in UTF-8")?;
        let keeper = Keeper::start(SHELL, &[&folder, program])?;
        let registry = Self {
            at,
            auth,
            // From here on the shell removes it.
            dir: dir.keep(),
            keeper,
        };
        registry.start_again()?;
        Ok(registry)
    }

    /// Where it is.
    pub const fn at(&self) -> SocketAddr {
        self.at
    }

    /// Ends it without a word, as a crash would.
    pub fn kill(&self) -> anyhow::Result<()> {
        self.keeper.tell("kill")
    }

    /// Starts it again where it was, with what it had.
    #[expect(
        clippy::disallowed_methods,
        reason = "a registry tells nobody when it is up: it is asked, up to a deadline"
    )]
    pub fn start_again(&self) -> anyhow::Result<()> {
        self.keeper.tell("start")?;
        let began = Instant::now();
        while let Err(error) = self.ask("GET", "/v2/", Ask::default()) {
            if began.elapsed() > PATIENCE {
                let out = fs::read_to_string(self.dir.join("out")).unwrap_or_default();
                bail!(
                    "the registry did not come up within {PATIENCE:?}: {error:#}; it said: {out}"
                );
            }
            thread::sleep(LOOK_AGAIN);
        }
        Ok(())
    }

    /// What a client of an engine's API sends to pull from here with a password: the header `X-Registry-Auth`.
    pub fn login(&self, password: &str) -> String {
        let login = serde_json::json!({
            "username": Self::USER, "password": password, "serveraddress": self.at.to_string(),
        });
        data_encoding::BASE64URL.encode(login.to_string().as_bytes())
    }

    /// Asks it as somebody who may.
    fn ask(&self, method: &str, path: &str, ask: Ask<'_>) -> anyhow::Result<Answer> {
        let login = BASE64.encode(format!("{}:{}", Self::USER, Self::PASSWORD).as_bytes());
        let login = format!("Basic {login}");
        let mut head = ask.head.to_vec();
        if self.auth == Auth::Basic {
            head.push(("authorization", &login));
        }
        let ask = Ask { head: &head, ..ask };
        http::ask(&At::Tcp(self.at), method, path, ask)
    }
}

const PATIENCE: Duration = Duration::from_secs(30);
const LOOK_AGAIN: Duration = Duration::from_millis(20);
