//! What an engine is told. `@DIR@` is its folder and `@NET@` the number of its network, which its shell puts in.

use std::fs;
use std::path::Path;

use rustix::process::{Resource, getrlimit};
use serde_json::json;

use super::{Kind, Shape};

/// Writes the files that an engine reads.
pub(super) fn write(kind: Kind, shape: &Shape, dir: &Path) -> std::io::Result<()> {
    let put = |name: &str, text: String| fs::write(dir.join(name), text);
    fs::create_dir_all(dir.join("data"))?;
    match kind {
        Kind::Docker => put("daemon.json", docker(shape).to_string()),
        Kind::Podman => {
            fs::create_dir_all(dir.join("net"))?;
            put("containers.conf", podman())?;
            put("storage.conf", STORAGE.to_owned())?;
            put("registries.conf", registries(shape))?;
            put("net/mesht@NET@.json", network().to_string())
        }
    }
}

/// The engine leaves the machine's rules for packets alone: it has a bridge of its own, and a published port is a process
/// that listens and passes on.
fn docker(shape: &Shape) -> serde_json::Value {
    json!({
        "data-root": "@DIR@/data",
        "exec-root": "@DIR@/exec",
        "pidfile": "@DIR@/engine.pid",
        "hosts": ["unix://@DIR@/engine.sock"],
        "group": "root",
        "bridge": "mesht@NET@",
        "iptables": false,
        "ip6tables": false,
        "ip-forward": false,
        "ip-masq": false,
        "userland-proxy": true,
        "cgroup-parent": "/mesht@NET@",
        "live-restore": shape.live_restore,
    })
}

/// Podman's wants for each container more open files than a process of a test may have, if it is not told how many.
/// Through Docker's API it takes the soft limit for the hard one and the other way round: both are the same here.
fn podman() -> String {
    let most = |of| getrlimit(of).maximum.unwrap_or(UNLIMITED).min(UNLIMITED);
    let (files, processes) = (most(Resource::Nofile), most(Resource::Nproc));
    format!(
        "[containers]\ndefault_ulimits = [\"nofile={files}:{files}\", \"nproc={processes}:{processes}\"]\n\
         [engine]\ncgroup_manager = \"cgroupfs\"\nevents_logger = \"file\"\nruntime = \"runc\"\ntmp_dir = \"@DIR@/tmp\"\n\
         [network]\nnetwork_backend = \"netavark\"\nnetwork_config_dir = \"@DIR@/net\"\ndefault_network = \"mesht@NET@\"\n"
    )
}

const UNLIMITED: u64 = 1 << 20;

const STORAGE: &str =
    "[storage]\ndriver = \"overlay\"\nrunroot = \"@DIR@/run\"\ngraphroot = \"@DIR@/data\"\n";

fn registries(shape: &Shape) -> String {
    let known = shape.registries.iter();
    let known = known.map(|at| format!("[[registry]]\nlocation = \"{at}\"\ninsecure = true\n"));
    let first = "unqualified-search-registries = []\n".to_owned();
    [first].into_iter().chain(known).collect()
}

/// Of a name of its own, since the names of its rules for packets come from it.
fn network() -> serde_json::Value {
    json!({
        "name": "mesht@NET@",
        "id": format!("{:064}", 0),
        "driver": "bridge",
        "network_interface": "mesht@NET@",
        "created": "2024-01-01T00:00:00Z",
        "subnets": [{ "subnet": "198.18.@NET@.0/24", "gateway": "198.18.@NET@.1" }],
        "ipv6_enabled": false,
        "internal": false,
        "dns_enabled": false,
        "ipam_options": { "driver": "host-local" },
    })
}
