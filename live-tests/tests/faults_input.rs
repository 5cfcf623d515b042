//! What people type, paste and send wrongly: each is refused with the rule it breaks and the code that goes with it, and
//! the controller goes on with nothing lost.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, ensure};
use live_tests::binaries::{Said, Site};
use live_tests::{eventually, soon};
use mesh_auth::tls::CaFingerprint;
use mesh_auth::token::Token;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

const MESH: &str = "version = 1\n[mesh]\nname = \"home\"\n";
const SHOP: &str =
    "version = 1\n[module]\nname = \"shop\"\nrelease = \"1\"\n[run]\ncommand = [\"true\"]\n";

/// What is typed, what it ends with, and what it has to say.
type Case<'a> = (&'a [&'a str], i32, &'a [&'a str]);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_typed_wrongly_is_refused_with_the_rule_it_breaks() -> anyhow::Result<()> {
    let Some(mut site) = Site::new()? else {
        return Ok(());
    };
    site.start_controller().await?;
    write_folders(&site)?;
    site.ctl(&["apply", "good", "--no-wait"]).await?.ok()?;
    let before = site.status().await?;
    let controller = site.controller_pid()?;

    for (typed, code, parts) in CASES {
        let said = typed_in(&site, typed).await?;
        expect(&said, code, parts).with_context(|| typed.join(" "))?;
    }

    let after = site.status().await?;
    for what in ["revision", "modules", "nodes"] {
        ensure!(
            before.get(what) == after.get(what),
            "{what}: {before} became {after}"
        );
    }
    unharmed(&mut site, controller).await
}

/// Folders with a mesh in each: one that is good, and one for each thing that can be wrong.
fn write_folders(site: &Site) -> anyhow::Result<()> {
    site.write("good/mesh.toml", MESH)?;
    site.write("good/modules/shop.toml", SHOP)?;
    let place = format!("{MESH}[[place]]\nmodule = \"shop\"\nnodes = [\"web.01\"]\n");
    let follows = format!("{SHOP}[events]\nfollows = [\"nobody.moved\"]\n");
    for (folder, mesh, shop, more) in [
        ("dotted", place.as_str(), SHOP, None),
        ("unknown", MESH, &SHOP.replace("release", "relaese"), None),
        ("deaf", MESH, &follows, None),
        ("twice", MESH, SHOP, Some(SHOP)),
    ] {
        site.write(&format!("{folder}/mesh.toml"), mesh)?;
        site.write(&format!("{folder}/modules/shop.toml"), shop)?;
        if let Some(more) = more {
            site.write(&format!("{folder}/modules/store.toml"), more)?;
        }
    }
    Ok(())
}

const DOTTED: &[&str] = &["web.01", "'.'", "RFC 1123"];
const CASES: [Case<'_>; 15] = [
    (&["token", "create", "--node", "web.01"], 2, DOTTED),
    (&["node", "rm", "web.01", "--yes"], 2, DOTTED),
    (
        &["apply", "dotted"],
        1,
        &["mesh.toml:", "web.01", "'.'", "RFC 1123"],
    ),
    (&["plan", "dotted"], 255, &["mesh.toml:", "web.01"]),
    (
        &["apply", "unknown"],
        1,
        &["shop.toml:", "relaese", "did you mean", "release"],
    ),
    (&["apply", "deaf"], 1, &["shop.toml:", "nobody"]),
    (&["apply", "twice"], 1, &["store.toml:", "shop"]),
    (&["apply", "nowhere"], 1, &["nowhere"]),
    (
        &["apply", "good", "--if-revision", "1"],
        4,
        &["revision", "not 1"],
    ),
    (
        &["seat", "assign", "post", "shop"],
        3,
        &["no seat post", "seat ls"],
    ),
    (
        &["node", "label", "one", "a=b"],
        3,
        &["no node one", "node ls"],
    ),
    (&["node", "rm", "one", "--yes"], 3, &["no node one"]),
    (&["token", "create", "--ttl", "0s"], 2, &["at least 1s"]),
    (
        &["token", "create", "--label", "role"],
        2,
        &["role", "KEY=VALUE"],
    ),
    (
        &["status", "--state-dir", "elsewhere"],
        7,
        &["elsewhere", "--state-dir"],
    ),
];

/// `meshctl`, with the site's state directory unless another is typed.
async fn typed_in(site: &Site, typed: &[&str]) -> anyhow::Result<Said> {
    if !typed.contains(&"--state-dir") {
        return site.ctl(typed).await;
    }
    let mut command = site.command("meshctl")?;
    command.args(typed);
    site.run(command).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_that_is_no_good_makes_no_node() -> anyhow::Result<()> {
    let (Some(mut site), Some(mut other)) = (Site::new()?, Site::new()?) else {
        return Ok(());
    };
    site.start_controller().await?;
    other.start_controller().await?;
    let controller = site.controller_pid()?;

    let text = site.token("one").await?;
    let token = parsed(&text)?;
    let (cut, _) = text.split_at(text.len() - 7);
    let refused = site.enrol(cut, "cut", &[]).await?;
    expect(&refused, 2, &["cut short", "copy it whole"])?;
    let altered = text.replace(text.get(40..42).context("it is long")?, "__");
    expect(
        &site.enrol(&altered, "altered", &[]).await?,
        2,
        &["altered"],
    )?;
    let refused = site.enrol(&text, "dotted", &["--name", "web.01"]).await?;
    expect(&refused, 2, &["web.01", "'.'", "RFC 1123"])?;
    let refused = site.enrol(&text, "named", &["--name", "three"]).await?;
    expect(&refused, 5, &["for node one", "three", "--name"])?;

    let mut elsewhere = token.clone();
    elsewhere.ca = Some(CaFingerprint::from_bytes([7; 32]));
    let refused = site.enrol(elsewhere.render().expose(), "ca", &[]).await?;
    expect(&refused, 1, &["another authority"])?;
    // Another mesh's token, as it is and as somebody would make it fit: this bus knows no such joiner.
    let mut foreign = parsed(&other.token("one").await?)?;
    foreign.urls.clone_from(&token.urls);
    let refused = site
        .enrol(foreign.render().expose(), "foreign", &[])
        .await?;
    expect(&refused, 1, &["another authority"])?;
    foreign.ca = token.ca;
    let refused = site.enrol(foreign.render().expose(), "forged", &[]).await?;
    expect(
        &refused,
        5,
        &["does not take token", "meshctl token create"],
    )?;

    too_late(&site).await?;
    ensure!(listed(&site).await?.is_empty(), "one of them made a node");
    for host in [
        "cut", "altered", "named", "ca", "foreign", "forged", "late", "later",
    ] {
        let config = site.home(host).join("agent.toml");
        ensure!(!config.exists(), "host {host} takes itself for a node");
    }
    spent(&mut site, &text).await?;
    unharmed(&mut site, controller).await
}

/// A token that expired is refused by the host, and by the bus if the host does not look.
async fn too_late(site: &Site) -> anyhow::Result<()> {
    let short = site.ctl(&["token", "create", "--ttl", "1s"]).await?.ok()?;
    let (short, mut late) = (short.trim(), parsed(&short)?);
    eventually(DEADLINE, "the token expires", async || {
        Ok(mesh_host::now().as_secs() > late.expires)
    })
    .await?;
    let refused = site.enrol(short, "late", &[]).await?;
    expect(&refused, 5, &["expired", "clock", "meshctl token create"])?;
    // A host that does not look at its clock gets no further.
    late.expires += 1_000_000;
    eventually(DEADLINE, "the bus lets the joiner go", async || {
        let refused = site.enrol(late.render().expose(), "later", &[]).await?;
        Ok(expect(&refused, 5, &["expired", "meshctl token create"]).is_ok())
    })
    .await?;
    Ok(())
}

/// A token is good for one host, before and after that host's agent is there.
async fn spent(site: &mut Site, token: &str) -> anyhow::Result<()> {
    site.enrol(token, "one", &[]).await?.ok()?;
    let refused = site.enrol(token, "second", &[]).await?;
    expect(&refused, 5, &["spent by node one", "meshctl token create"])?;
    let refused = site.enrol(token, "one", &[]).await?;
    expect(&refused, 1, &["already belongs to a node"])?;
    site.start_agent("one")?;
    site.ready("one").await?;
    let refused = site.enrol(token, "third", &[]).await?;
    expect(&refused, 5, &["spent", "meshctl token create"])?;
    let any = site.ctl(&["token", "create"]).await?.ok()?;
    let refused = site.enrol(any.trim(), "taken", &["--name", "one"]).await?;
    expect(&refused, 5, &["one", "meshctl node rejoin"])?;
    ensure!(listed(site).await? == ["one"], "{:?}", listed(site).await?);
    Ok(())
}

fn parsed(text: &str) -> anyhow::Result<Token> {
    Ok(text.trim().parse()?)
}

async fn listed(site: &Site) -> anyhow::Result<Vec<String>> {
    let names = site.ctl(&["node", "ls", "-o", "name"]).await?.ok()?;
    Ok(names.lines().map(str::to_owned).collect())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_others_can_read_is_refused_and_left_as_it_is() -> anyhow::Result<()> {
    let Some(mut site) = Site::new()? else {
        return Ok(());
    };
    site.start_controller().await?;
    site.join("one").await?;
    for file in ["node.creds", "node.xkey"] {
        let key = site.home("one").join(file);
        let bytes = fs::read(&key)?;
        mode(&key, 0o644)?;
        let said = site.run(site.agent("one")?).await?;
        expect(&said, 1, &[file, "0644", "chmod 600"])?;
        ensure!(fs::read(&key)? == bytes, "{file} was written");
        mode(&key, 0o600)?;
    }
    site.stop_controller().await?;
    for file in [
        "keys/signing.seed",
        "keys/controller.seed",
        "keys/system.seed",
        "tls/ca.key",
    ] {
        let key = site.state_dir().join(file);
        let bytes = fs::read(&key)?;
        mode(&key, 0o640)?;
        expect(
            &site.refused_controller().await?,
            1,
            &[file, "0640", "chmod 600"],
        )?;
        ensure!(fs::read(&key)? == bytes, "{file} was written");
        mode(&key, 0o600)?;
    }
    site.start_controller().await?;
    site.start_agent("one")?;
    site.ready("one").await
}

fn mode(path: &Path, mode: u32) -> anyhow::Result<()> {
    Ok(fs::set_permissions(path, fs::Permissions::from_mode(mode))?)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn garbage_on_the_operators_socket_does_not_end_the_controller() -> anyhow::Result<()> {
    let Some(mut site) = Site::new()? else {
        return Ok(());
    };
    site.start_controller().await?;
    let (controller, before) = (site.controller_pid()?, site.status().await?);
    let nested = format!("{{\"declared\":{{\"x\":{}", "[".repeat(200_000));
    for (body, status, said) in [
        ("{", "422", "EOF"),
        ("{\"declared\":7}", "422", "declared"),
        ("{\"x\":1}", "422", "unknown field `x`"),
        (nested.as_str(), "422", "EOF"),
        ("\u{0}\u{1}", "422", "expected value"),
    ] {
        let answer = post(&site, "/v1/apply", body.len(), body.as_bytes()).await?;
        ensure!(
            answer.starts_with(&format!("HTTP/1.1 {status}")),
            "{answer}"
        );
        ensure!(
            answer.contains(said) && answer.contains("\"code\":\"invalid\""),
            "{answer}"
        );
    }
    let huge = vec![b' '; 40 << 20];
    let answer = post(&site, "/v1/apply", huge.len(), &huge).await?;
    ensure!(answer.contains("length limit"), "{answer}");

    // Nobody answers what does not end; nobody else waits for it either.
    let mut idle = Vec::new();
    for garbage in [
        &b"\x16\x03\x01\x02\x00\x01\x00"[..],
        b"GET",
        b"POST /v1/apply HTTP/1.1\r\nhost: mesh\r\ncontent-length: 9223372036854775807\r\n\r\n{",
        &vec![0xff; 70_000],
        b"",
    ] {
        let mut socket = connect(&site).await?;
        // The controller may close before it has read all of it.
        let _broken = socket.write_all(garbage).await;
        idle.push(socket);
    }
    let after = site.status().await?;
    ensure!(
        before.get("revision") == after.get("revision"),
        "{before} became {after}"
    );
    drop(idle);
    unharmed(&mut site, controller).await
}

async fn connect(site: &Site) -> anyhow::Result<UnixStream> {
    Ok(UnixStream::connect(site.state_dir().join("controller.sock")).await?)
}

async fn post(site: &Site, path: &str, length: usize, body: &[u8]) -> anyhow::Result<String> {
    let (mut from, mut to) = connect(site).await?.into_split();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: mesh\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: \
         {length}\r\n\r\n"
    );
    let sending = async {
        // A body that is refused is not read to its end.
        let _broken = to.write_all(&[head.as_bytes(), body].concat()).await;
        to
    };
    let answering = async {
        let mut answer = Vec::new();
        // Nor is an answer always followed by a good end.
        let _broken = from.read_to_end(&mut answer).await;
        String::from_utf8_lossy(&answer).into_owned()
    };
    let (_to, answer) = soon("an answer", async { tokio::join!(sending, answering) }).await?;
    Ok(answer)
}

/// The code, every part of what has to be said, and no trace of a panic.
fn expect(said: &Said, code: i32, parts: &[&str]) -> anyhow::Result<()> {
    ensure!(said.code == Some(code), "not {code}: {said:?}");
    for part in parts {
        ensure!(said.err.contains(part), "{part:?} is not said: {said:?}");
    }
    ensure!(!said.err.contains("panicked"), "{said:?}");
    Ok(())
}

/// The same controller, and it still makes changes.
async fn unharmed(site: &mut Site, controller: u32) -> anyhow::Result<()> {
    site.controller_runs()?;
    ensure!(site.controller_pid()? == controller, "another controller");
    ensure!(
        !site.controller_log().contains("panicked"),
        "the controller panicked"
    );
    site.token("after-all").await?;
    let up = site
        .status()
        .await?
        .get("store_up")
        .and_then(Value::as_bool);
    ensure!(up == Some(true), "the store takes nothing any more");
    Ok(())
}

const DEADLINE: Duration = Duration::from_secs(20);
