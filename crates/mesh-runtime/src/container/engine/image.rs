//! Images: whether one is there, and fetching one while what moves is watched.

use std::pin::Pin;
use std::time::Duration;

use bollard::auth::DockerCredentials;
use bollard::errors::Error;
use bollard::models::CreateImageInfo;
use bollard::query_parameters::CreateImageOptions;
use futures_util::{Stream, StreamExt};
use tokio::time::timeout;

use super::Engine;
use crate::PullSecret;
use crate::container::fault::{Asked, Fault};
use crate::container::progress::Line;

/// An image the engine has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Held {
    /// The engine's own id of it.
    id: String,
    /// By which digests which repositories have it, `repository@sha256:…`.
    digests: Vec<String>,
}

impl Held {
    /// Whether it is what this digest names.
    pub(crate) fn is(&self, digest: &str) -> bool {
        let of = |text: &String| text.split_once('@').is_some_and(|(_, it)| it == digest);
        self.digests.iter().any(of)
    }

    /// Its digest, as its registry knows it; of one that came from no registry the engine's own.
    pub(crate) fn digest(&self, repository: &str) -> String {
        let of = |text: &String| {
            let (name, digest) = text.split_once('@')?;
            let same = name == repository || name.ends_with(&format!("/{repository}"));
            same.then(|| digest.to_owned())
        };
        self.digests
            .iter()
            .find_map(of)
            .or_else(|| {
                let (_, digest) = self.digests.first()?.split_once('@')?;
                Some(digest.to_owned())
            })
            .unwrap_or_else(|| self.id.clone())
    }
}

/// A pull that is on its way; it ends when this is dropped.
pub(crate) struct Pulling<'a> {
    engine: &'a Engine,
    image: String,
    lines: Pin<Box<dyn Stream<Item = Result<CreateImageInfo, Error>> + Send>>,
}

impl std::fmt::Debug for Pulling<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pulling")
            .field("image", &self.image)
            .finish_non_exhaustive()
    }
}

impl Pulling<'_> {
    /// The next line, nothing at the end; an error in its outer form when none came in time.
    pub(crate) async fn line(&mut self, within: Duration) -> Result<Option<Line>, PullBroken> {
        match timeout(within, self.lines.next()).await {
            Err(_) => Err(PullBroken::Silent),
            Ok(None) => Ok(None),
            Ok(Some(Ok(info))) => Ok(Some(read(info))),
            Ok(Some(Err(error))) => {
                let fault = self.engine.fault(Asked::Pull(&self.image), error);
                Err(PullBroken::Fault(fault))
            }
        }
    }
}

/// Why a pull says no more.
#[derive(Debug)]
pub(crate) enum PullBroken {
    /// Nothing came in time.
    Silent,
    /// It ended with this.
    Fault(Fault),
}

impl Engine {
    /// An image by a reference, or by the engine's own id; nothing when it is not there.
    pub(crate) async fn image(&self, reference: &str) -> Result<Option<Held>, Fault> {
        let reference = reference.to_owned();
        let answer = self
            .call("for an image", |docker| async move {
                docker.inspect_image(&reference).await
            })
            .await;
        match answer {
            Ok(image) => Ok(Some(Held {
                id: image.id.unwrap_or_default(),
                digests: image.repo_digests.unwrap_or_default(),
            })),
            Err(Fault::Missing | Fault::ImageGone { .. }) => Ok(None),
            Err(fault) => Err(fault),
        }
    }

    /// Begins to fetch an image. `registry` is the host the secret is for.
    pub(crate) async fn pull(
        &self,
        reference: &str,
        secret: Option<&PullSecret>,
        registry: Option<&str>,
    ) -> Result<Pulling<'_>, Fault> {
        let docker = self.client().await?;
        let (name, tag) = match reference.split_once('@') {
            Some((name, digest)) => (name, digest),
            None => reference
                .rsplit_once(':')
                .filter(|(_, tag)| !tag.contains('/'))
                .unwrap_or((reference, "latest")),
        };
        let options = CreateImageOptions {
            from_image: Some(name.to_owned()),
            tag: Some(tag.to_owned()),
            ..CreateImageOptions::default()
        };
        let credentials = secret
            .map(|secret| credentials(secret, registry))
            .transpose()
            .map_err(|why| Fault::Auth {
                image: reference.to_owned(),
                why: why.to_owned(),
            })?;
        Ok(Pulling {
            engine: self,
            image: reference.to_owned(),
            lines: Box::pin(docker.create_image(Some(options), None, credentials)),
        })
    }

    /// Bytes that are free where it keeps images, and where that is; nothing when that cannot be known from here.
    pub(crate) async fn room(&self) -> Option<(u64, String)> {
        let info = self
            .call("what it is", |docker| async move { docker.info().await })
            .await
            .ok()?;
        let dir = info.docker_root_dir.filter(|dir| !dir.is_empty())?;
        let asked = dir.clone();
        // A disk may hang, and this is asked between two lines of a pull.
        let found = tokio::task::spawn_blocking(move || rustix::fs::statvfs(asked.as_str()).ok());
        let found = found.await.ok()??;
        Some((found.f_bavail.saturating_mul(found.f_frsize), dir))
    }
}

fn credentials(
    secret: &PullSecret,
    registry: Option<&str>,
) -> Result<DockerCredentials, &'static str> {
    let text = std::str::from_utf8(secret.expose()).map_err(|_| "its pull_secret is no text")?;
    // A file that was read whole ends with a newline more often than a password does.
    let text = text.trim_end_matches(['\r', '\n']);
    let (user, password) = text
        .split_once(':')
        .ok_or("its pull_secret is not of the form user:password")?;
    Ok(DockerCredentials {
        username: Some(user.to_owned()),
        password: Some(password.to_owned()),
        serveraddress: registry.map(str::to_owned),
        ..DockerCredentials::default()
    })
}

fn read(info: CreateImageInfo) -> Line {
    let bytes = |number: Option<i64>| number.and_then(|number| u64::try_from(number).ok());
    let detail = info.progress_detail.unwrap_or_default();
    Line {
        id: info.id,
        status: info.status.unwrap_or_default(),
        current: bytes(detail.current),
        total: bytes(detail.total),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pull_secret_is_a_user_and_a_password() {
        let read = |text: &[u8]| credentials(&PullSecret::new(text.to_vec()), Some("r.example"));
        let found = read(b"user:pass:word \n").unwrap();
        assert_eq!(found.username.as_deref(), Some("user"));
        assert_eq!(found.password.as_deref(), Some("pass:word "));
        assert_eq!(found.serveraddress.as_deref(), Some("r.example"));
        for wrong in [b"password".as_slice(), b"\xff:x"] {
            assert!(!read(wrong).unwrap_err().contains("password\""));
        }
    }

    #[test]
    fn an_image_is_known_by_the_digest_its_own_registry_has_it_by() {
        let [one, two] = ["11", "22"].map(|byte| format!("sha256:{}", byte.repeat(32)));
        let held = Held {
            id: "sha256:33".to_owned(),
            digests: vec![
                format!("other.example/shop@{one}"),
                format!("docker.io/library/shop@{two}"),
            ],
        };
        assert!(held.is(&one) && held.is(&two) && !held.is("sha256:33"));
        assert_eq!(held.digest("shop"), one);
        assert_eq!(held.digest("library/shop"), two);
        assert_eq!(held.digest("other.example/shop"), one);
        assert_eq!(held.digest("absent"), one);
        let local = Held {
            digests: vec![],
            ..held
        };
        assert_eq!(local.digest("shop"), "sha256:33");
    }
}
