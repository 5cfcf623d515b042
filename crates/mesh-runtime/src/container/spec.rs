//! What an engine is told of a container: everything that was declared, and what the mesh sees to.

use std::collections::BTreeMap;

use bollard::models::{
    ContainerCreateBody, HostConfig, HostConfigLogConfig, Mount, MountType, MountVolumeOptions,
    PortBinding, RestartPolicy, RestartPolicyNameEnum,
};
use mesh_model::{Container, Image, Network, Port, Volume};

use super::label;
use crate::{Desired, HANDED_IN_CONTAINER};

/// What this engine has of what is nice to have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Abilities {
    /// A program that reaps what a module leaves behind.
    pub(crate) init: bool,
    /// At which address a container reaches the host; or a word that it takes for one.
    pub(crate) host: Option<String>,
}

impl Default for Abilities {
    fn default() -> Self {
        Self {
            init: true,
            host: Some(HOST_WORD.to_owned()),
        }
    }
}

impl Abilities {
    /// What is left of them after an engine refused a container with these words; nothing when they are not the cause.
    pub(crate) fn without(&self, refusal: &str) -> Option<Self> {
        let lower = refusal.to_lowercase();
        let says = |texts: &[&str]| texts.iter().any(|text| lower.contains(text));
        if self.init && says(&["docker-init", "catatonit", "init binary"]) {
            return Some(Self {
                init: false,
                ..self.clone()
            });
        }
        let word = self.host.as_deref() == Some(HOST_WORD);
        (word && says(&[HOST_WORD])).then(|| Self {
            host: None,
            ..self.clone()
        })
    }
}

/// What Docker takes for the host's address, as a container sees it.
const HOST_WORD: &str = "host-gateway";

/// A container for `desired`; nothing when it is declared as something else.
///
/// Its environment is what was declared and what the mesh tells it, byte for byte: nothing of the agent's own, and nothing
/// filled in. Its secrets are files.
pub(crate) fn body(
    owner: &str,
    desired: &Desired,
    grace_secs: i64,
    abilities: &Abilities,
) -> Option<ContainerCreateBody> {
    let workload = &desired.workload;
    let container = workload.run.container()?;
    let labels = label::labels(owner, workload)?;
    let env: BTreeMap<&String, &String> = workload
        .env
        .iter()
        .chain(&desired.extra_env_in_container)
        .collect();
    let ports = &container.ports;
    Some(ContainerCreateBody {
        image: Some(reference(&container.image)),
        cmd: (!container.args.is_empty()).then(|| container.args.clone()),
        env: Some(
            env.into_iter()
                .map(|(name, value)| format!("{name}={value}"))
                .collect(),
        ),
        labels: Some(
            labels
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value))
                .collect(),
        ),
        exposed_ports: (!ports.is_empty()).then(|| ports.iter().map(inner).collect()),
        stop_timeout: Some(grace_secs),
        host_config: Some(host_config(owner, desired, container, abilities)),
        ..ContainerCreateBody::default()
    })
}

/// How an engine is asked for an image. A digest says all: Podman takes no tag beside one.
pub(crate) fn reference(image: &Image) -> String {
    match (image.digest(), image.tag()) {
        (Some(digest), _) => format!("{}@{digest}", image.repository()),
        (None, Some(tag)) => format!("{}:{tag}", image.repository()),
        (None, None) => format!("{}:latest", image.repository()),
    }
}

/// The host a registry is at, as far as a reference names one.
pub(crate) fn registry(image: &Image) -> Option<&str> {
    let (host, _) = image.repository().split_once('/')?;
    (host.contains(['.', ':']) || host == "localhost").then_some(host)
}

fn host_config(
    owner: &str,
    desired: &Desired,
    container: &Container,
    abilities: &Abilities,
) -> HostConfig {
    let bridge = container.network == Network::Bridge;
    let memory = container
        .resources
        .memory
        .map(|bytes| i64::try_from(bytes).unwrap_or(i64::MAX));
    let volumes = container
        .volumes
        .iter()
        .map(|volume| mount(owner, desired, volume));
    HostConfig {
        // Whoever starts a module again is the agent: an engine that did so as well would start one that is declared
        // no more.
        restart_policy: Some(RestartPolicy {
            name: Some(RestartPolicyNameEnum::NO),
            maximum_retry_count: None,
        }),
        // Without a limit an engine's log of one module fills the disk.
        log_config: Some(HostConfigLogConfig {
            typ: Some("json-file".to_owned()),
            config: Some(
                [("max-size", "10m"), ("max-file", "3")]
                    .map(|(name, value)| (name.to_owned(), value.to_owned()))
                    .into(),
            ),
        }),
        network_mode: Some(if bridge { "bridge" } else { "host" }.to_owned()),
        extra_hosts: abilities
            .host
            .as_ref()
            .filter(|_| bridge)
            .map(|host| vec![format!("host.docker.internal:{host}")]),
        port_bindings: (!container.ports.is_empty()).then(|| {
            bindings(&container.ports)
                .into_iter()
                .map(|(inner, outer)| (inner, Some(outer)))
                .collect()
        }),
        mounts: Some(handed(desired).into_iter().chain(volumes).collect()),
        memory,
        // The same, so that what does not fit is not swapped out instead.
        memory_swap: memory,
        nano_cpus: container
            .resources
            .millicpus
            .map(|millis| i64::from(millis).saturating_mul(1_000_000)),
        init: abilities.init.then_some(true),
        ..HostConfig::default()
    }
}

/// Which ports of the host lead to each of the container's.
fn bindings(ports: &std::collections::BTreeSet<Port>) -> BTreeMap<String, Vec<PortBinding>> {
    let mut bindings: BTreeMap<String, Vec<PortBinding>> = BTreeMap::new();
    for port in ports {
        bindings.entry(inner(port)).or_default().push(PortBinding {
            host_ip: port.address.map(|address| address.to_string()),
            host_port: Some(port.host.to_string()),
        });
    }
    bindings
}

fn inner(port: &Port) -> String {
    format!("{}/{}", port.container, port.protocol.as_str())
}

/// The files it is handed. The directory and not the files, so that one that is replaced is seen.
fn handed(desired: &Desired) -> Option<Mount> {
    let source = desired.handed.to_str().filter(|path| !path.is_empty())?;
    Some(Mount {
        typ: Some(MountType::BIND),
        source: Some(source.to_owned()),
        target: Some(HANDED_IN_CONTAINER.to_owned()),
        read_only: Some(true),
        ..Mount::default()
    })
}

fn mount(owner: &str, desired: &Desired, volume: &Volume) -> Mount {
    // A path that is missing is an error, and not made as an empty directory of root's. A volume the engine makes for us
    // says whose it is.
    let (typ, volume_options) = if volume.is_path() {
        (MountType::BIND, None)
    } else {
        let labels = [
            (label::OWNER, owner.to_owned()),
            (label::MODULE, desired.module().to_string()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into();
        let options = MountVolumeOptions {
            labels: Some(labels),
            ..MountVolumeOptions::default()
        };
        (MountType::VOLUME, Some(options))
    };
    Mount {
        typ: Some(typ),
        source: Some(volume.source.clone()),
        target: Some(volume.target.clone()),
        read_only: Some(volume.read_only),
        volume_options,
        ..Mount::default()
    }
}

#[cfg(test)]
mod tests {
    use mesh_model::Run;
    use serde_json::{Value, json};

    use super::super::label::tests::whole;
    use super::*;

    fn desired() -> Desired {
        let extra = [("MESH_CREDS", "/run/mesh/creds"), ("MESH_NODE", "web-1")];
        Desired {
            workload: whole(),
            extra_env: [(
                "MESH_CREDS".to_owned(),
                "/state/handed/shop/creds".to_owned(),
            )]
            .into(),
            extra_env_in_container: extra
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
            handed: "/state/handed/shop".into(),
            pull_secret: Some(crate::PullSecret::new(b"user:hunter2".to_vec())),
        }
    }

    fn rendered(desired: &Desired) -> Value {
        let body = body("me", desired, 10, &Abilities::default()).unwrap();
        serde_json::to_value(body).unwrap()
    }

    fn change(desired: &mut Desired, change: impl FnOnce(&mut Container)) {
        let Run::Image(container) = &mut desired.workload.run else {
            panic!("a container");
        };
        change(container);
    }

    #[test]
    fn a_container_is_told_what_was_declared() {
        let body = rendered(&desired());
        assert_eq!(body["Image"], "registry.example:5000/team/shop:1.4");
        assert_eq!(body["Cmd"], json!(["serve", "two words"]));
        assert_eq!(body["Entrypoint"], Value::Null);
        assert_eq!(body["StopTimeout"], 10);
        assert_eq!(body["ExposedPorts"], json!({"80/tcp": {}, "53/udp": {}}));
        let host = &body["HostConfig"];
        assert_eq!(
            host["PortBindings"],
            json!({
                "80/tcp": [{"HostIp": "127.0.0.1", "HostPort": "8080"}],
                "53/udp": [{"HostPort": "5353"}],
            })
        );
        assert_eq!(host["NetworkMode"], "bridge");
        assert_eq!(
            host["ExtraHosts"],
            json!(["host.docker.internal:host-gateway"])
        );
        assert_eq!(
            (&host["Memory"], &host["MemorySwap"]),
            (&json!(268_435_456), &json!(268_435_456))
        );
        assert_eq!(host["NanoCpus"], 1_500_000_000);
        assert_eq!(host["Init"], true);
        let labels = json!({"mesh.owner": "me", "mesh.module": "shop"});
        assert_eq!(
            host["Mounts"],
            json!([
                {"Type": "bind", "Source": "/state/handed/shop", "Target": "/run/mesh", "ReadOnly": true},
                {"Type": "bind", "Source": "/srv/files", "Target": "/files", "ReadOnly": true},
                {"Type": "volume", "Source": "data", "Target": "/var/lib/shop", "ReadOnly": false,
                 "VolumeOptions": {"Labels": labels}},
            ])
        );
    }

    /// Containers come back by themselves after a reboot, under other names and as what is declared no more.
    /// <https://github.com/moby/moby/issues/9815>
    #[test]
    fn case_c_0a7f90a_an_engine_starts_no_container_again_by_itself() {
        for restart in [
            mesh_model::Restart::Always,
            mesh_model::Restart::OnFailure,
            mesh_model::Restart::Never,
        ] {
            let mut desired = desired();
            desired.workload.restart = restart;
            let policy = &rendered(&desired)["HostConfig"]["RestartPolicy"];
            assert_eq!(policy["Name"], "no");
        }
    }

    /// A log without rotation grew to 116 GB.
    /// <https://github.com/hashicorp/nomad/issues/5782>
    #[test]
    fn case_c_f6cbc7b_a_log_always_has_a_limit() {
        let log = &rendered(&desired())["HostConfig"]["LogConfig"];
        let config = json!({"max-size": "10m", "max-file": "3"});
        assert_eq!(*log, json!({"Type": "json-file", "Config": config}));
    }

    #[test]
    fn an_environment_is_what_was_declared_and_what_the_mesh_says_byte_for_byte() {
        let mut desired = desired();
        desired.workload.env = [
            ("DOLLAR", "abc$def ${HOME} $$"),
            ("LINES", "-----BEGIN\nline2\n\n-----END\n"),
            ("SPACES", " foo bar "),
            ("EMPTY", ""),
            ("EQUALS", "a=b=c"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
        assert_eq!(
            rendered(&desired)["Env"],
            json!([
                "DOLLAR=abc$def ${HOME} $$",
                "EMPTY=",
                "EQUALS=a=b=c",
                "LINES=-----BEGIN\nline2\n\n-----END\n",
                "MESH_CREDS=/run/mesh/creds",
                "MESH_NODE=web-1",
                "SPACES= foo bar ",
            ])
        );
    }

    #[test]
    fn no_secret_stands_in_what_an_engine_is_told() {
        let mut desired = desired();
        desired.workload.credential = mesh_model::Sealed(b"sealed".to_vec());
        let text = rendered(&desired).to_string();
        for secret in ["hunter2", "sealed", "115,101,97,108"] {
            assert!(!text.contains(secret), "{text}");
        }
    }

    #[test]
    fn a_container_in_the_hosts_network_maps_nothing() {
        let mut desired = desired();
        change(&mut desired, |container| {
            container.network = Network::Host;
            container.ports.clear();
            container.args.clear();
            container.resources = mesh_model::Resources::default();
        });
        let body = rendered(&desired);
        let host = &body["HostConfig"];
        assert_eq!(host["NetworkMode"], "host");
        for absent in [
            &body["Cmd"],
            &body["ExposedPorts"],
            &host["ExtraHosts"],
            &host["PortBindings"],
            &host["Memory"],
            &host["NanoCpus"],
        ] {
            assert_eq!(*absent, Value::Null);
        }
    }

    #[test]
    fn an_image_is_asked_for_by_its_digest_where_it_has_one() {
        let digest = format!("sha256:{}", "ab".repeat(32));
        for (written, asked, at) in [
            ("shop", "shop:latest", None),
            ("team/shop:1", "team/shop:1", None),
            ("localhost/shop:1", "localhost/shop:1", Some("localhost")),
            (
                "registry.example:5000/shop:1",
                "registry.example:5000/shop:1",
                Some("registry.example:5000"),
            ),
            (
                &format!("r.example/shop:1@{digest}"),
                &format!("r.example/shop@{digest}"),
                Some("r.example"),
            ),
        ] {
            let image: Image = written.parse().unwrap();
            assert_eq!(reference(&image), asked);
            assert_eq!(registry(&image), at, "{written}");
        }
    }

    #[test]
    fn an_engine_is_asked_for_no_more_than_it_has() {
        let all = Abilities::default();
        let refused = "fork/exec /usr/bin/docker-init: no such file or directory";
        let some = all.without(refused).unwrap();
        assert_eq!((some.init, some.host.is_some()), (false, true));
        assert_eq!(some.without(refused), None);
        let refused = "unable to derive the IP value for host-gateway";
        assert_eq!(some.without(refused).unwrap().host, None);
        let known = Abilities {
            host: Some("10.88.0.1".to_owned()),
            ..some.clone()
        };
        assert_eq!(known.without(refused), None);
        assert_eq!(all.without("No such image"), None);
        let body = body("me", &desired(), 10, &known).unwrap();
        let host = body.host_config.unwrap();
        assert_eq!(host.init, None);
        let hosts = vec!["host.docker.internal:10.88.0.1".to_owned()];
        assert_eq!(host.extra_hosts, Some(hosts));
    }
}
