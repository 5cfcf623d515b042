//! Images made by hand, and put into the registry over its API.

use std::fs::File;
use std::io::Read;

use anyhow::Context;
use data_encoding::HEXLOWER;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::Registry;
use crate::http::Ask;

/// An image that is to be: what it runs, of which layers.
#[derive(Debug, Clone)]
pub struct Image {
    /// What is run, before what a container adds.
    pub entrypoint: Vec<String>,
    /// What is run with that, if a container adds nothing.
    pub command: Vec<String>,
    /// What it is asked to end with. The program of tests heeds no other signal than `SIGKILL`.
    pub stop_signal: &'static str,
    /// Its files.
    pub layers: Vec<Layer>,
}

impl Image {
    /// The program of tests, with these arguments.
    pub fn running(arguments: &[&str]) -> anyhow::Result<Self> {
        let program = crate::program::in_an_image()?;
        Ok(Self {
            entrypoint: vec!["/program".to_owned()],
            command: arguments.iter().map(|&it| it.to_owned()).collect(),
            stop_signal: "SIGKILL",
            layers: vec![Layer::of(&[("program", program)])?],
        })
    }

    /// The same with more layers, each of so many bytes that nobody can make smaller.
    pub fn padded(mut self, layers: usize, bytes: usize) -> anyhow::Result<Self> {
        for nth in 0..layers {
            self.layers.push(Layer::random(nth, bytes)?);
        }
        Ok(self)
    }

    fn config(&self) -> Value {
        let digests: Vec<String> = self.layers.iter().map(|it| digest(&it.0)).collect();
        json!({
            "architecture": architecture(),
            "os": "linux",
            "config": {
                "Entrypoint": self.entrypoint,
                "Cmd": self.command,
                "StopSignal": self.stop_signal,
            },
            "rootfs": { "type": "layers", "diff_ids": digests },
        })
    }
}

/// A layer: an archive of files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layer(Vec<u8>);

impl Layer {
    /// Of these files, which everybody may run.
    pub fn of(files: &[(&str, &[u8])]) -> anyhow::Result<Self> {
        let mut archive = tar::Builder::new(Vec::new());
        for (name, bytes) in files {
            let mut header = tar::Header::new_gnu();
            header.set_size(u64::try_from(bytes.len())?);
            header.set_mode(0o755);
            archive.append_data(&mut header, name, *bytes)?;
        }
        Ok(Self(archive.into_inner()?))
    }

    /// Of one file of chance, another each time.
    pub fn random(nth: usize, bytes: usize) -> anyhow::Result<Self> {
        let mut chance = vec![0; bytes];
        File::open("/dev/urandom")
            .and_then(|mut file| file.read_exact(&mut chance))
            .context("reading chance")?;
        Self::of(&[(&format!("padding/{nth}"), &chance)])
    }

    /// How large it is.
    pub const fn size(&self) -> usize {
        self.0.len()
    }
}

/// An image as the registry has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pushed {
    /// Its manifest's, by which it is known exactly.
    pub digest: String,
    repository: String,
    tag: String,
}

impl Pushed {
    /// Its repository and tag, as at a place where the registry is reached: its own, or a proxy's.
    pub fn tagged(&self, at: std::net::SocketAddr) -> String {
        format!("{at}/{}:{}", self.repository, self.tag)
    }

    /// Its repository and digest, likewise.
    pub fn pinned(&self, at: std::net::SocketAddr) -> String {
        format!("{at}/{}@{}", self.repository, self.digest)
    }
}

impl Registry {
    /// Puts an image there. One that has the name already loses it.
    pub fn push(&self, repository: &str, tag: &str, image: &Image) -> anyhow::Result<Pushed> {
        let config = image.config().to_string().into_bytes();
        let mut layers = Vec::new();
        for Layer(bytes) in &image.layers {
            self.put_blob(repository, bytes)?;
            layers
                .push(json!({ "mediaType": LAYER, "size": bytes.len(), "digest": digest(bytes) }));
        }
        self.put_blob(repository, &config)?;
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": { "mediaType": CONFIG, "size": config.len(), "digest": digest(&config) },
            "layers": layers,
        });
        let manifest = manifest.to_string().into_bytes();
        let path = format!("/v2/{repository}/manifests/{tag}");
        let ask = Ask {
            head: &[("content-type", MANIFEST)],
            body: &manifest,
        };
        self.ask("PUT", &path, ask)?.ok()?;
        Ok(Pushed {
            digest: digest(&manifest),
            repository: repository.to_owned(),
            tag: tag.to_owned(),
        })
    }

    fn put_blob(&self, repository: &str, bytes: &[u8]) -> anyhow::Result<()> {
        let digest = digest(bytes);
        let there = format!("/v2/{repository}/blobs/{digest}");
        if self.ask("HEAD", &there, Ask::default())?.status == 200 {
            return Ok(());
        }
        let path = format!("/v2/{repository}/blobs/uploads/");
        let begun = self.ask("POST", &path, Ask::default())?.ok()?;
        let location = begun.line("location").context("an upload has a place")?;
        let own = format!("http://{}", self.at());
        let place = location.strip_prefix(&own).unwrap_or(location);
        let with = if place.contains('?') { '&' } else { '?' };
        let ask = Ask {
            head: &[("content-type", "application/octet-stream")],
            body: bytes,
        };
        self.ask("PUT", &format!("{place}{with}digest={digest}"), ask)?
            .ok()?;
        Ok(())
    }
}

/// Both kinds of engine read a layer that is not compressed, whatever they are told.
const LAYER: &str = "application/vnd.docker.image.rootfs.diff.tar.gzip";
const MANIFEST: &str = "application/vnd.docker.distribution.manifest.v2+json";
const CONFIG: &str = "application/vnd.docker.container.image.v1+json";

fn digest(bytes: &[u8]) -> String {
    format!("sha256:{}", HEXLOWER.encode(&Sha256::digest(bytes)))
}

/// As images name it.
const fn architecture() -> &'static str {
    if cfg!(target_arch = "aarch64") {
        "arm64"
    } else {
        "amd64"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_image_says_of_its_layers_is_what_they_are() {
        let layer = Layer::of(&[("file", b"text")]).unwrap();
        let image = Image {
            entrypoint: vec!["/file".to_owned()],
            command: Vec::new(),
            stop_signal: "SIGKILL",
            layers: vec![layer.clone()],
        };
        let config = image.config();
        let said = config.pointer("/rootfs/diff_ids/0").and_then(Value::as_str);
        assert_eq!(said, Some(digest(&layer.0).as_str()));
        assert_eq!(
            digest(b"abc"),
            "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }

    #[test]
    fn padding_is_of_its_size_and_never_the_same_twice() {
        let (one, other) = (Layer::random(0, 5_000), Layer::random(0, 5_000));
        let (one, other) = (one.unwrap(), other.unwrap());
        assert!(one.size() > 5_000);
        assert_ne!(one, other);
    }
}
