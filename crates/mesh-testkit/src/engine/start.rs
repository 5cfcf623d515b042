//! Starting an engine in a world of its own, and having that end with us, however we end.

use std::fs;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use super::{Kind, Shape, settings};
use crate::keeper::Keeper;

/// An engine, and the shell that keeps it.
#[derive(Debug)]
pub(super) struct Running {
    dir: PathBuf,
    keeper: Keeper,
}

/// Takes a network that nobody has, puts its number into the settings, and runs what follows in namespaces of processes and
/// mounts of its own: with their first process everything in them ends, containers and their mounts included. Then it
/// takes away what lies outside of them. A test that panics, or is killed, leaves nothing behind.
///
/// The network is one for measuring, which nobody routes. A disk that is filled is mounted outside, so that how much room it
/// has is seen there as well.
const OUTSIDE: &str = r#"
dir=$1 inside=$2 kind=$3 disk=$4
exec 2>> "$dir/out"
[ "$disk" = 0 ] || mount -t tmpfs -o "size=${disk}m" tmpfs "$dir/data"
mkdir -p "$dir/data/tmp" "$dir/xdg"
net=1
until ip link add "mesht$net" type bridge; do
  net=$((net + 1))
  [ "$net" -le 250 ] || exit 1
done
ip addr add "198.18.$net.1/24" dev "mesht$net"
ip link set "mesht$net" up
for file in daemon.json containers.conf storage.conf net/mesht@NET@.json; do
  [ ! -e "$dir/$file" ] || sed -i "s|@NET@|$net|g; s|@DIR@|$dir|g" "$dir/$file"
done
[ ! -e "$dir/net" ] || mv "$dir/net/mesht@NET@.json" "$dir/net/mesht$net.json"
unshare --pid --fork --kill-child --mount-proc --mount bash -c "$inside" bash "$dir" "$kind"
[ "$disk" = 0 ] || umount -l "$dir/data"
ip link del "mesht$net"
for table in filter nat; do
  iptables -t "$table" -S | grep -F "198.18.$net." | sed 's/^-A/-D/' | while read -r rule; do
    eval "iptables -t $table $rule"
  done
done
find /sys/fs/cgroup -depth -type d \( -path "*/mesht$net" -o -path "*/mesht$net/*" \) -exec rmdir {} +
rm -rf "$dir"
"#;

/// What only this engine is to see and change is on a disk of its own, which nobody else sees. `bash`, since it waits for
/// processes that are nobody's any more, as the first of them has to.
const INSIDE: &str = r#"
dir=$1 kind=$2
export HOME=$dir TMPDIR=$dir/data/tmp XDG_RUNTIME_DIR=$dir/xdg
export CONTAINERS_CONF=$dir/containers.conf CONTAINERS_STORAGE_CONF=$dir/storage.conf
export CONTAINERS_REGISTRIES_CONF=$dir/registries.conf
for own in /run /var/lib/cni /var/lib/containers; do
  [ ! -d "$own" ] || mount -t tmpfs tmpfs "$own"
done
mountpoint -q /sys/fs/cgroup || mount -t cgroup2 cgroup2 /sys/fs/cgroup
start() {
  case "$kind" in
    docker)
      rm -f "$dir/engine.pid" "$dir/exec/containerd/containerd.pid"
      dockerd --config-file "$dir/daemon.json" < /dev/null >> "$dir/out" 2>&1 & ;;
    podman)
      rm -f "$dir/engine.sock"
      podman system service --time 0 "unix://$dir/engine.sock" < /dev/null >> "$dir/out" 2>&1 & ;;
  esac
  engine=$!
}
ended() {
  wait "$engine"
  # It ends with its engine, but not at the same moment.
  below=$(cat "$dir/exec/containerd/containerd.pid")
  [ -z "$below" ] || while kill -0 "$below"; do sleep 0.02; done
}
while read -r told; do
  case "$told" in
    start) start ;;
    kill) kill -9 "$engine"; ended ;;
    stop)
      kill "$engine"
      for _ in $(seq 600); do
        kill -0 "$engine" || break
        sleep 0.1
      done
      kill -9 "$engine"
      ended ;;
    fill) cat /dev/zero > "$dir/data/ballast" ;;
    free) rm -f "$dir/data/ballast" ;;
  esac
  echo "$told"
done
[ "$kind" != podman ] || timeout 20 podman rm --all --force --time 0 > /dev/null
"#;

impl Running {
    /// Starts the shell, and no engine yet.
    pub(super) fn start(kind: Kind, shape: &Shape) -> anyhow::Result<Self> {
        let dir = tempfile::Builder::new().prefix("mesh-engine-").tempdir()?;
        settings::write(kind, shape, dir.path())?;
        let disk = shape.disk_mib.unwrap_or_default().to_string();
        let folder = dir
            .path()
            .to_str()
            .context("a folder has a name in UTF-8")?;
        let keeper = Keeper::start(OUTSIDE, &[folder, INSIDE, &kind.to_string(), &disk])?;
        // From here on the shell removes it.
        let dir = dir.keep();
        Ok(Self { dir, keeper })
    }

    pub(super) fn socket(&self) -> PathBuf {
        self.dir.join("engine.sock")
    }

    /// What it and its shell said.
    pub(super) fn log(&self) -> String {
        fs::read_to_string(self.dir.join("out")).unwrap_or_default()
    }

    /// Has the shell do something, and waits until it has.
    pub(super) fn tell(&self, word: &str) -> anyhow::Result<()> {
        self.keeper.tell(word).with_context(|| {
            format!(
                "an engine of a test's own wants root; it said: {}",
                self.log()
            )
        })
    }

    /// Waits until the engine answers.
    #[expect(
        clippy::disallowed_methods,
        reason = "an engine tells nobody when it is up: it is asked, up to a deadline"
    )]
    pub(super) fn wait(&self, answers: impl Fn() -> anyhow::Result<()>) -> anyhow::Result<()> {
        let began = Instant::now();
        while let Err(error) = answers() {
            if began.elapsed() > PATIENCE {
                let log = self.log();
                bail!("the engine did not come up within {PATIENCE:?}: {error:#}; it said: {log}");
            }
            thread::sleep(LOOK_AGAIN);
        }
        Ok(())
    }
}

const PATIENCE: Duration = Duration::from_mins(1);
const LOOK_AGAIN: Duration = Duration::from_millis(30);
