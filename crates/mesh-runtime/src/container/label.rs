//! How a container says whose it is and what it was made from: its labels, which outlive every file of the agent.

use std::collections::BTreeMap;

use mesh_model::{
    Container, Image, ModuleName, Network, PublicKey, Resources, Run, Sealed, SecretName, Workload,
};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::parts::{HealthV1, RestartV1, VersionsV1, valueless, versions};

/// Which agent's it is.
pub(crate) const OWNER: &str = "mesh.owner";
/// Which module it is.
pub(crate) const MODULE: &str = "mesh.module";
/// Its release, for people.
pub(crate) const RELEASE: &str = "mesh.release";
/// A hash of what it was made from.
pub(crate) const SPEC: &str = "mesh.spec";
/// What it was made from, without a secret.
pub(crate) const RECORD: &str = "mesh.record";

/// The labels of a container for `workload`; nothing when it is none for a container.
pub(crate) fn labels(owner: &str, workload: &Workload) -> Option<BTreeMap<&'static str, String>> {
    let record = encode(workload)?;
    Some(BTreeMap::from([
        (OWNER, owner.to_owned()),
        (MODULE, workload.module.to_string()),
        (RELEASE, workload.release.clone()),
        (SPEC, hash(&record)),
        (RECORD, record),
    ]))
}

/// What a container for `workload` is known by, whoever made it.
pub(crate) fn spec(workload: &Workload) -> Option<String> {
    encode(workload).map(|record| hash(&record))
}

/// What a container was made from; nothing when its label holds nothing this version understands.
pub(crate) fn decode(record: &str) -> Option<Workload> {
    let Form::V1(form) = serde_json::from_str(record).ok()?;
    form.into_workload()
}

/// What a container for `workload` is made from, as text and without a secret.
pub(crate) fn encode(workload: &Workload) -> Option<String> {
    let form = Form::V1(V1::of(workload)?);
    serde_json::to_string(&form).ok()
}

fn hash(record: &str) -> String {
    let digest = Sha256::digest(record.as_bytes());
    data_encoding::HEXLOWER.encode(&digest)
}

/// Every version that was ever written.
#[derive(Serialize, Deserialize)]
#[serde(tag = "version")]
enum Form {
    #[serde(rename = "1")]
    V1(V1),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct V1 {
    module: ModuleName,
    release: String,
    image: Image,
    args: Vec<String>,
    ports: Vec<String>,
    volumes: Vec<String>,
    network: NetworkV1,
    memory: Option<u64>,
    millicpus: Option<u32>,
    pull_secret: Option<SecretName>,
    after: Vec<ModuleName>,
    env: BTreeMap<String, String>,
    restart: RestartV1,
    health: Option<HealthV1>,
    /// Which value of each; never the value.
    secrets: VersionsV1,
    key: PublicKey,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum NetworkV1 {
    Bridge,
    Host,
}

impl V1 {
    fn of(workload: &Workload) -> Option<Self> {
        let container = workload.run.container()?;
        Some(Self {
            module: workload.module.clone(),
            release: workload.release.clone(),
            image: container.image.clone(),
            args: container.args.clone(),
            ports: container.ports.iter().map(ToString::to_string).collect(),
            volumes: container.volumes.iter().map(ToString::to_string).collect(),
            network: match container.network {
                Network::Bridge => NetworkV1::Bridge,
                Network::Host => NetworkV1::Host,
            },
            memory: container.resources.memory,
            millicpus: container.resources.millicpus,
            pull_secret: container.pull_secret.clone(),
            after: workload.after.iter().cloned().collect(),
            env: workload.env.clone(),
            restart: workload.restart.into(),
            health: workload.health.as_ref().map(Into::into),
            secrets: versions(&workload.secrets),
            key: workload.key.clone(),
        })
    }

    fn into_workload(self) -> Option<Workload> {
        let container = Container {
            image: self.image,
            args: self.args,
            ports: read(&self.ports)?.into_iter().collect(),
            volumes: read(&self.volumes)?.into_iter().collect(),
            network: match self.network {
                NetworkV1::Bridge => Network::Bridge,
                NetworkV1::Host => Network::Host,
            },
            resources: Resources {
                memory: self.memory,
                millicpus: self.millicpus,
            },
            pull_secret: self.pull_secret,
        };
        Some(Workload {
            module: self.module,
            release: self.release,
            run: Run::Image(Box::new(container)),
            after: self.after.into_iter().collect(),
            env: self.env,
            restart: self.restart.into(),
            health: self.health.map(Into::into),
            secrets: valueless(self.secrets),
            pull_secret: None,
            key: self.key,
            credential: Sealed(vec![]),
            accepts: [].into(),
        })
    }
}

fn read<T: std::str::FromStr>(texts: &[String]) -> Option<Vec<T>> {
    texts.iter().map(|text| text.parse().ok()).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use mesh_model::{HandedSecret, Health, Probe, Restart};

    use super::*;

    /// As the first version writes it.
    const V1_TEXT: &str = include_str!("label/v1.json");

    /// A workload in which everything is said that can be.
    pub(crate) fn whole() -> Workload {
        Workload {
            module: "shop".parse().unwrap(),
            release: "1.4.0".to_owned(),
            run: Run::Image(Box::new(Container {
                image: "registry.example:5000/team/shop:1.4".parse().unwrap(),
                args: vec!["serve".to_owned(), "two words".to_owned()],
                ports: ["127.0.0.1:8080:80", "5353:53/udp"]
                    .map(|port| port.parse().unwrap())
                    .into(),
                volumes: ["data:/var/lib/shop", "/srv/files:/files:ro"]
                    .map(|volume| volume.parse().unwrap())
                    .into(),
                network: Network::Bridge,
                resources: Resources {
                    memory: Some(256 * 1024 * 1024),
                    millicpus: Some(1500),
                },
                pull_secret: Some("REGISTRY".parse().unwrap()),
            })),
            after: ["db".parse().unwrap()].into(),
            env: [("LOG".to_owned(), "a$b\nc d".to_owned())].into(),
            restart: Restart::OnFailure,
            health: Some(Health {
                probe: Probe::Exec(vec!["healthy".to_owned()]),
                every: 2000,
                within: 30_000,
            }),
            secrets: [(
                "SMTP".parse().unwrap(),
                HandedSecret {
                    version: 3,
                    sealed: Sealed(vec![]),
                },
            )]
            .into(),
            pull_secret: None,
            key: PublicKey::from_raw([0; 32]),
            credential: Sealed(vec![]),
            accepts: [].into(),
        }
    }

    #[test]
    fn what_the_first_version_wrote_is_read() {
        assert_eq!(decode(V1_TEXT.trim()), Some(whole()));
        assert_eq!(encode(&whole()).unwrap(), V1_TEXT.trim());
    }

    #[test]
    fn what_a_container_was_made_from_is_read_back_without_a_secret() {
        let mut given = whole();
        given.credential = Sealed(b"sealed-credential".to_vec());
        let handed = HandedSecret {
            version: 3,
            sealed: Sealed(b"sealed-secret".to_vec()),
        };
        given.pull_secret = Some(handed.clone());
        given.secrets = [("SMTP".parse().unwrap(), handed)].into();
        let labels = labels("me", &given).unwrap();
        assert!(decode(&labels[RECORD]).unwrap().runs_as(&given));
        // Sealed bytes would be numbers in a form of this kind.
        let sealed: Vec<_> = b"sealed".iter().map(ToString::to_string).collect();
        assert!(!format!("{labels:?}").contains(&sealed.join(",")));
        assert_eq!(labels[SPEC], spec(&given).unwrap());
        assert_eq!(spec(&given), spec(&whole()));
    }

    #[test]
    fn anything_else_it_is_made_from_is_another_spec() {
        let plain = spec(&whole());
        let changes: [fn(&mut Workload); 4] = [
            |w| w.release = "2".to_owned(),
            |w| w.env = [].into(),
            |w| w.key = PublicKey::from_raw([1; 32]),
            |w| {
                if let Run::Image(container) = &mut w.run {
                    container.args.clear();
                }
            },
        ];
        for change in changes {
            let mut other = whole();
            change(&mut other);
            assert_ne!(spec(&other), plain);
        }
    }

    #[test]
    fn what_is_no_record_is_none() {
        for text in [
            "",
            "{}",
            &V1_TEXT.replace("\"1\"", "\"2\""),
            &V1_TEXT.replace("shop\"", "SHOP\""),
            &V1_TEXT.replace("5353:53/udp", "0:0"),
        ] {
            assert_eq!(decode(text), None, "{text}");
        }
        let mut process = whole();
        process.run = Run::command(["sleep".to_owned()]).unwrap();
        assert_eq!(labels("me", &process), None);
    }
}
