//! The module that the page for authors writes does what the page says, in Rust and in Python.

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use live_tests::binaries::Site;
use live_tests::{eventually, named};

/// Where Python finds a NATS client: a folder with `nats-py` and what that needs.
const PYTHON: &str = "MESH_TEST_PYTHON";

/// The page's own mesh of two nodes with this for the clerk's command and its environment.
async fn clerks(site: &mut Site, run: &str) -> anyhow::Result<()> {
    site.start_controller().await?;
    for node in ["one", "two"] {
        site.join(node).await?;
        site.start_agent(node)?;
    }
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/clerk");
    for file in ["mesh.toml", "modules/greeter.toml", "modules/clerk.toml"] {
        let text = std::fs::read_to_string(example.join(file))?;
        site.write(&format!("page/{file}"), &text.replace(COMMAND, run))?;
    }
    let folder = site.dir().join("page").display().to_string();
    let applied = site.ctl(&["apply", &folder, "--timeout", "45s"]).await?;
    applied.ok()?;

    eventually(PATIENCE, "the clerk notes greetings", async || {
        let log = log(site)?;
        Ok(log
            .lines()
            .filter(|line| line.contains(" says hello number "))
            .count()
            > 2)
    })
    .await?;
    // It runs already, and is not started again for the seat.
    let pid = site.pid("two", "clerk")?;
    let before = log(site)?;
    anyhow::ensure!(!before.contains("a letter from"), "{before}");
    site.ctl(&["seat", "assign", "post", "clerk"]).await?.ok()?;
    eventually(PATIENCE, "the clerk works all five letters", async || {
        Ok(log(site)?
            .lines()
            .filter(|line| *line == "a letter from greeter")
            .count()
            >= 5)
    })
    .await?;
    anyhow::ensure!(site.pid("two", "clerk")? == pid, "it was started again");

    // What it emits is on the stream: it may, and nothing was refused.
    let log = log(site)?;
    anyhow::ensure!(!log.contains("the bus:"), "{log}");
    Ok(())
}

/// What the clerk printed.
fn log(site: &Site) -> anyhow::Result<String> {
    let path = site.home("two").join("runtime/clerk/log");
    std::fs::read_to_string(&path).with_context(|| path.display().to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_clerk_in_rust_does_what_the_page_says() -> anyhow::Result<()> {
    let Some(mut site) = Site::new()? else {
        return Ok(());
    };
    clerks(&mut site, COMMAND).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_clerk_in_python_does_what_the_page_says() -> anyhow::Result<()> {
    let Some(client) = named(PYTHON)? else {
        return Ok(());
    };
    let Some(mut site) = Site::new()? else {
        return Ok(());
    };
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/clerk/clerk.py");
    let run = format!(
        "command = [\"python3\", \"-u\", {:?}]\nenv = {{ PYTHONPATH = {:?} }}",
        program.display().to_string(),
        client.display().to_string()
    );
    clerks(&mut site, &run).await
}

const COMMAND: &str = "command = [\"clerk\"]";
const PATIENCE: Duration = Duration::from_secs(40);
