//! Credentials are replaced while modules run, and operators' secrets are where they are needed and nowhere else.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, ensure};
use data_encoding::BASE64;
use live_tests::binaries::{Said, Site};
use live_tests::eventually;
use mesh_amqp::AmqpModule;
use mesh_auth::creds::Credentials;
use mesh_auth::tls::ca_client_config;
use mesh_bus::BusError;
use mesh_model::{InstanceRef, Principal};

const PATIENCE: Duration = Duration::from_mins(1);

/// The page's mesh: a greeter on `one`, a clerk that follows it on `two`.
async fn greeting(site: &mut Site) -> anyhow::Result<()> {
    site.start_controller().await?;
    for node in ["one", "two"] {
        site.join(node).await?;
        site.start_agent(node)?;
    }
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/clerk");
    let example = example.display().to_string();
    site.ctl(&["apply", &example, "--timeout", "45s"])
        .await?
        .ok()?;
    heard(site, 3).await
}

fn log(site: &Site, node: &str, module: &str) -> String {
    let path = site.home(node).join(format!("runtime/{module}/log"));
    fs::read_to_string(path).unwrap_or_default()
}

/// Which greetings the clerk has heard.
fn greetings(site: &Site) -> BTreeSet<u64> {
    let log = log(site, "two", "clerk");
    let numbers = log.lines().filter_map(|line| {
        let number = line.strip_prefix("greeter says hello number ")?;
        number.parse().ok()
    });
    numbers.collect()
}

/// Waits until so many more are heard, one after another without a gap.
async fn heard(site: &Site, more: usize) -> anyhow::Result<()> {
    let before = greetings(site).len();
    eventually(PATIENCE, "greetings are heard, each of them", async || {
        let heard = greetings(site);
        // The greeter may have begun before the clerk.
        let ends = heard.first().zip(heard.last());
        let whole = ends.is_none_or(|(first, last)| last - first + 1 == heard.len() as u64);
        Ok(whole && heard.len() >= before + more)
    })
    .await
    .map(drop)
}

fn creds(site: &Site, node: &str, module: &str) -> anyhow::Result<Credentials> {
    let path = site.home(node).join("handed").join(module).join("creds");
    Ok(Credentials::read(&path)?)
}

fn seed(credentials: &Credentials) -> String {
    credentials.key().seed().expose().to_owned()
}

fn clerk() -> anyhow::Result<InstanceRef> {
    Ok(InstanceRef {
        module: "clerk".parse()?,
        node: "two".parse()?,
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_module_goes_on_with_a_new_credential_and_the_old_one_is_refused() -> anyhow::Result<()> {
    let Some(mut site) = Site::new()? else {
        return Ok(());
    };
    greeting(&mut site).await?;
    let old = creds(&site, "two", "clerk")?;
    let pids = (site.pid("one", "greeter")?, site.pid("two", "clerk")?);
    for module in ["greeter", "clerk"] {
        site.ctl(&["module", "rotate", module]).await?.ok()?;
    }
    let new = creds(&site, "two", "clerk")?;
    ensure!(seed(&new) != seed(&old), "its file is the one before");
    let users = site.state_dir().join("bus/edge-users.conf");
    let is_known = |of: &Credentials| -> anyhow::Result<bool> {
        let text = fs::read_to_string(&users)?;
        Ok(text.contains(of.key().public().as_str()))
    };
    // The module says that it has taken it, and long before the day is over the old one is forgotten.
    eventually(PATIENCE, "the old key is forgotten", async || {
        Ok(is_known(&new)? && !is_known(&old)?)
    })
    .await?;
    heard(&site, 4).await?;
    let now = (site.pid("one", "greeter")?, site.pid("two", "clerk")?);
    ensure!(now == pids, "they were restarted: {pids:?}, {now:?}");

    let (_, port) = site.server()?;
    let ca = fs::read_to_string(site.home("two").join("ca.pem"))?;
    let endpoint = mesh_nats::Endpoint {
        urls: vec![format!("tls://127.0.0.1:{port}")],
        tls: Some(ca_client_config(&ca)?),
        name: "a test with an old credential".to_owned(),
    };
    let dialling = mesh_nats::Dialling {
        first: mesh_nats::FirstAttempt::MustSucceed,
        seed: 0,
    };
    let principal = Principal::Instance(clerk()?);
    let opened = async |of: &Credentials| {
        let credential = mesh_nats::Credential::NKeySeed(seed(of));
        mesh_nats::Connection::open(&endpoint, &credential, &principal, dialling).await
    };
    let refused = opened(&old).await;
    ensure!(
        matches!(refused, Err(BusError::Refused { .. })),
        "{refused:?}"
    );
    opened(&new).await?;
    site.ctl(&["verify"]).await?.ok()?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn over_rabbitmq_a_module_goes_on_and_the_old_password_opens_nothing() -> anyhow::Result<()> {
    let Some(mut site) = Site::over_amqp()? else {
        return Ok(());
    };
    greeting(&mut site).await?;
    let old = creds(&site, "two", "clerk")?;
    let pids = (site.pid("one", "greeter")?, site.pid("two", "clerk")?);
    for module in ["greeter", "clerk"] {
        site.ctl(&["module", "rotate", module]).await?.ok()?;
    }
    eventually(PATIENCE, "the greeter has the new one", async || {
        Ok(log(&site, "one", "greeter").contains("the module has a new credential"))
    })
    .await?;
    heard(&site, 4).await?;
    let now = (site.pid("one", "greeter")?, site.pid("two", "clerk")?);
    ensure!(now == pids, "they were restarted: {pids:?}, {now:?}");

    let clerk = site.processes("two", "clerk");
    let variable = |name: &str| clerk.first().and_then(|it| it.variable(name));
    let url = variable("MESH_BUS_URL").context("no address")?;
    let endpoint = mesh_amqp::Endpoint::of_urls(&[url], None, "a test")?;
    let dialling = mesh_amqp::Dialling {
        first: mesh_amqp::FirstAttempt::MustSucceed,
        seed: 0,
    };
    let instance = self::clerk()?;
    let opened = async |of: &Credentials| {
        let credential = mesh_amqp::Credential::of_seed(&seed(of));
        AmqpModule::connect(&endpoint, &credential, &instance, dialling).await
    };
    let refused = opened(&old).await;
    ensure!(
        matches!(refused, Err(BusError::Refused { .. })),
        "{refused:?}"
    );
    opened(&creds(&site, "two", "clerk")?).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_module_that_does_not_take_it_is_restarted_once() -> anyhow::Result<()> {
    let Some(mut site) = Site::new()? else {
        return Ok(());
    };
    site.start_controller().await?;
    site.join("one").await?;
    site.start_agent("one")?;
    let run = "[run]\ncommand = [\"sh\", \"-c\", \"exec sleep 600\"]\n";
    site.apply(&[("plain", run, &["one"])]).await?;
    let before = site.pid("one", "plain")?;
    let rotate = ["module", "rotate", "plain", "--overlap", "3s"];
    site.ctl(&rotate).await?.ok()?;
    ensure!(
        site.pid("one", "plain")? == before,
        "it was restarted at once"
    );
    eventually(PATIENCE, "it is restarted", async || {
        Ok(site.pid("one", "plain").is_ok_and(|pid| pid != before))
    })
    .await?;
    let after = site.pid("one", "plain")?;
    site.ready("one").await?;
    // A restart of the agent is none of the module, whichever key it was started with.
    site.kill_agent("one")?;
    site.start_agent("one")?;
    site.ready("one").await?;
    ensure!(site.pid("one", "plain")? == after, "it was restarted twice");
    Ok(())
}

/// Every file below a folder but those it is for.
fn files(folder: &Path, found: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        match entry.file_type()? {
            kind if kind.is_dir() => files(&path, found)?,
            kind if kind.is_file() => found.push(path),
            _ => {}
        }
    }
    Ok(())
}

fn holds(bytes: &[u8], value: &str) -> bool {
    let encoded = BASE64.encode(value.as_bytes());
    let has = |text: &str| {
        let text = text.trim_end_matches('=').as_bytes();
        bytes.windows(text.len()).any(|window| window == text)
    };
    has(value) || has(&encoded)
}

const VALUE: &str = "correct-horse-5b1f0c77-battery";
const OTHER: &str = "[run]\ncommand = [\"sleep\", \"600\"]\n";

/// What the module prints of each value it is started with: how long it is, and what it finds beside it.
fn printed(values: &[&str]) -> String {
    let lines = values
        .iter()
        .map(|value| format!("{}\nTOKEN\n", value.len()));
    lines.collect()
}

async fn reads(site: &Site, values: &[&str]) -> anyhow::Result<()> {
    let expected = printed(values);
    eventually(PATIENCE, "the module has read it", async || {
        Ok(log(site, "one", "needs") == expected)
    })
    .await
    .map(drop)
}

/// A mesh whose module `needs` has the secret on node `one`, from standard input; what was said, and where it is declared.
async fn needing(site: &mut Site, said: &mut Vec<Said>) -> anyhow::Result<String> {
    let given = site.write("given/value", &format!("{VALUE}\n"))?;
    site.start_controller().await?;
    for node in ["one", "two"] {
        site.join(node).await?;
        site.start_agent(node)?;
    }
    let script = "wc -c < \\\"$TOKEN_FILE\\\"; ls \\\"$MESH_SECRETS\\\"; exec sleep 600";
    let run = format!("[run]\ncommand = [\"sh\", \"-c\", \"{script}\"]\nsecrets = [\"TOKEN\"]\n");
    let folder = site.mesh(&[("needs", &run, &["one"]), ("other", OTHER, &["two"])])?;
    let folder = folder.display().to_string();
    // Not set, it is refused with what to type.
    let refused = site.ctl(&["apply", &folder]).await?;
    ensure!(
        refused.err.contains("`meshctl secret set TOKEN`"),
        "{refused:?}"
    );
    let mut set = site.command("meshctl")?;
    set.arg("--state-dir").arg(site.state_dir());
    set.args(["secret", "set", "TOKEN"])
        .stdin(File::open(&given)?);
    let done = site.run(set).await?;
    ensure!(done.code == Some(0), "{done:?}");
    said.push(done);
    site.ctl(&["apply", &folder, "--timeout", "45s"])
        .await?
        .ok()?;
    reads(site, &[VALUE]).await?;
    Ok(folder)
}

/// A backup holds what opens them, and a controller that is started anew goes on.
async fn backed_up(site: &mut Site, said: &mut Vec<Said>) -> anyhow::Result<()> {
    site.stop_controller().await?;
    let backup = site.dir().join("backup.tar");
    let mut command = site.controller()?;
    command.arg("backup").arg(&backup);
    said.push(site.run(command).await?);
    site.use_state_dir("restored");
    let mut command = site.controller()?;
    command.arg("restore").arg(&backup);
    said.push(site.run(command).await?);
    let key = fs::read(site.state_dir().join("keys/secrets.seed"))?;
    let first = fs::read(site.dir().join("controller/keys/secrets.seed"))?;
    ensure!(key == first, "the key is in the backup");
    site.use_state_dir("controller");
    site.start_controller().await
}

/// No process has it but this test.
fn in_no_process() -> anyhow::Result<()> {
    for entry in fs::read_dir("/proc")?.flatten() {
        let pid = entry.file_name();
        if pid.to_str() == Some(&std::process::id().to_string()) {
            continue;
        }
        for name in ["cmdline", "environ"] {
            let bytes = fs::read(entry.path().join(name)).unwrap_or_default();
            ensure!(
                !holds(&bytes, VALUE),
                "it is in {name} of {}",
                pid.display()
            );
        }
    }
    Ok(())
}

/// No file has it but those it was given in and the one it is handed in: logs, the store, the bus, a backup among them.
fn in_no_other_file(site: &Site, handed: &Path) -> anyhow::Result<()> {
    let mut all = Vec::new();
    files(site.dir(), &mut all)?;
    ensure!(all.len() > 50, "{} files", all.len());
    for path in all {
        let meant = path == handed || path.starts_with(site.dir().join("given"));
        let there = fs::read(&path).unwrap_or_default();
        ensure!(
            meant || !holds(&there, VALUE),
            "it is in {}",
            path.display()
        );
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secrets_value_is_where_its_module_finds_it_and_nowhere_else() -> anyhow::Result<()> {
    let Some(mut site) = Site::new()? else {
        return Ok(());
    };
    let mut said = Vec::new();
    let folder = needing(&mut site, &mut said).await?;

    // Another value reaches the node that needs it, restarts the module once, and nobody else hears of it.
    let (pid, told) = (site.pid("one", "needs")?, site.declared("two").await?);
    let longer = format!("{VALUE}-and-staple");
    let file = site.write("given/longer", &longer)?;
    let file = file.display().to_string();
    said.push(
        site.ctl(&["secret", "set", "TOKEN", "--file", &file])
            .await?,
    );
    reads(&site, &[VALUE, &longer]).await?;
    ensure!(site.pid("one", "needs")? != pid, "it was not restarted");
    ensure!(site.declared("two").await? == told, "another node is told");
    let removed = site.ctl(&["secret", "rm", "TOKEN", "--yes"]).await?;
    ensure!(removed.code == Some(4), "it is in use: {removed:?}");
    backed_up(&mut site, &mut said).await?;

    for words in [
        &["status"][..],
        &["status", "-o", "json"],
        &["secret", "ls"],
        &["secret", "ls", "-o", "json"],
        &["node", "ls"],
        &["node", "inspect", "one"],
        &["module", "inspect", "needs"],
        &["plan", &folder],
        &["reports", "one"],
        &["doctor"],
        &["derive", &folder],
        &["logs", "needs"],
        &["secret", "set", "not-a-name", "--file", &file],
    ] {
        said.push(site.ctl(words).await?);
    }
    let mut status = site.agent("one")?;
    status.arg("status");
    said.push(site.run(status).await?);
    for said in &said {
        let text = format!("{said:?}");
        ensure!(!holds(text.as_bytes(), VALUE), "it is said: {text}");
    }
    in_no_process()?;
    let handed = site.home("one").join("handed/needs/secrets/TOKEN");
    ensure!(
        fs::read_to_string(&handed)? == longer,
        "it is not handed whole"
    );
    in_no_other_file(&site, &handed)?;

    // It goes with the module.
    site.apply(&[("other", OTHER, &["two"])]).await?;
    eventually(PATIENCE, "the node has it no longer", async || {
        Ok(!handed.exists())
    })
    .await?;
    site.ctl(&["secret", "rm", "TOKEN", "--yes"]).await?.ok()?;
    Ok(())
}
