//! A node that is removed is out at once: its connection, and its modules'.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, ensure};
use async_nats::{ConnectOptions, Event};
use live_tests::binaries::Site;
use live_tests::{eventually, soon};
use mesh_auth::creds::Credentials;
use mesh_auth::tls::ca_client_config;
use tokio::sync::mpsc;

const STEADY: &str = "[run]\ncommand = [\"sleep\", \"86400\"]\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn revoking_a_node_takes_effect_on_its_live_connection() -> anyhow::Result<()> {
    let Some(mut site) = Site::new()? else {
        return Ok(());
    };
    site.start_controller().await?;
    for node in ["one", "two"] {
        site.join(node).await?;
        site.start_agent(node)?;
    }
    site.apply(&[("steady", STEADY, &["one", "two"])]).await?;
    let keys = [key(&site, "one", "node.creds")?, module_key(&site, "one")?];
    let others = [key(&site, "two", "node.creds")?, module_key(&site, "two")?];
    let mut gone = Vec::new();
    for key in &keys {
        gone.push(connect(&site, key).await?);
    }
    let mut stays = Vec::new();
    for key in &others {
        stays.push(connect(&site, key).await?);
    }

    let unasked = site.ctl(&["node", "rm", "one"]).await?;
    ensure!(
        unasked.code == Some(1) && unasked.err.contains("--yes"),
        "{unasked:?}"
    );
    site.node("one").await?;
    site.ctl(&["node", "rm", "one", "--yes"]).await?.ok()?;

    for connection in &mut gone {
        soon("the server closes the connection", connection.lost.recv()).await?;
    }
    for key in &keys {
        let again = connect(&site, key).await;
        let error = again.err().context("a revoked key is let in again")?;
        let error = format!("{error:#}").to_lowercase();
        ensure!(error.contains("authorization violation"), "{error}");
    }
    eventually(
        Duration::from_secs(30),
        "the agent is refused",
        async || {
            site.agent_runs("one")?;
            let log = site.agent_log("one").to_lowercase();
            Ok(log.contains("authorization violation"))
        },
    )
    .await?;
    ensure!(site.node("one").await.is_err(), "it is still a node");
    for connection in &mut stays {
        ensure!(
            connection.lost.try_recv().is_err(),
            "another node's connection was closed"
        );
    }
    site.ready("two").await?;
    let unknown = site.ctl(&["node", "rm", "one", "--yes"]).await?;
    ensure!(unknown.code == Some(3), "{unknown:?}");
    Ok(())
}

/// A connection, and word of its loss.
struct Live {
    _client: async_nats::Client,
    lost: mpsc::UnboundedReceiver<()>,
}

async fn connect(site: &Site, seed: &str) -> anyhow::Result<Live> {
    let ca = std::fs::read_to_string(site.home("one").join("ca.pem"))?;
    let (told, lost) = mpsc::unbounded_channel();
    let client = ConnectOptions::with_nkey(seed.to_owned())
        .tls_client_config(ca_client_config(&ca)?)
        .event_callback(move |event| {
            let told = told.clone();
            async move {
                if matches!(event, Event::Disconnected | Event::Closed) {
                    // The test may be over.
                    let _unheard = told.send(());
                }
            }
        })
        .connect(format!("tls://127.0.0.1:{}", site.server()?.1))
        .await?;
    Ok(Live {
        _client: client,
        lost,
    })
}

fn key(site: &Site, node: &str, file: impl AsRef<Path>) -> anyhow::Result<String> {
    let key = Credentials::read(&site.home(node).join(file))?;
    Ok(key.key().seed().expose().to_owned())
}

/// What the agent handed to its one module.
fn module_key(site: &Site, node: &str) -> anyhow::Result<String> {
    let processes = site.processes(node, "steady");
    let process = processes.first().context("the module runs")?;
    key(
        site,
        node,
        process
            .variable("MESH_CREDS")
            .context("it was handed a credential")?,
    )
}
