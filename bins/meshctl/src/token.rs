//! Tokens.

use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Duration;

use mesh_api::{TokenCreated, TokenLine, TokenRequest};
use mesh_model::{BusKind, NodeName, TokenId};

use crate::cli::{Cli, Output, TokenCreate};
use crate::declare::done;
use crate::out;
use crate::table::{dash, table};

/// Makes a token.
pub(crate) async fn create(cli: &Cli, create: &TokenCreate) -> anyhow::Result<ExitCode> {
    let request = TokenRequest {
        ttl_secs: create.ttl.as_secs(),
        node: create.node.clone(),
        labels: create.labels.iter().cloned().collect(),
        rejoin: false,
        bus: create.bus,
    };
    show(
        cli,
        &cli.client().create_token(&request).await?,
        request.node.as_ref(),
    )
}

/// Makes a token that replaces a node's key.
pub(crate) async fn rejoin(
    cli: &Cli,
    node: &NodeName,
    ttl: Duration,
    bus: Option<BusKind>,
) -> anyhow::Result<ExitCode> {
    let request = TokenRequest {
        ttl_secs: ttl.as_secs(),
        node: Some(node.clone()),
        labels: std::collections::BTreeMap::new(),
        rejoin: true,
        bus,
    };
    show(
        cli,
        &cli.client().create_token(&request).await?,
        request.node.as_ref(),
    )
}

fn show(cli: &Cli, token: &TokenCreated, node: Option<&NodeName>) -> anyhow::Result<ExitCode> {
    match cli.output {
        Output::Json => out::json("Token", token)?,
        Output::Name | Output::Table => {
            out::data(&format!("{}\n", token.token));
            hint(&token.token, node);
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Lists tokens.
pub(crate) async fn list(cli: &Cli) -> anyhow::Result<ExitCode> {
    let tokens = cli.client().tokens().await?;
    let now = mesh_host::now();
    let row = |token: &TokenLine| {
        [
            token.id.to_string(),
            token.bus.to_string(),
            format!("{} s", token.expires.since(now) / 1000),
            dash(token.node.as_ref()),
            dash(token.spent_by.as_ref()),
        ]
    };
    match cli.output {
        Output::Json => out::json("TokenList", &tokens)?,
        Output::Name => {
            for token in &tokens.items {
                out::data(&format!("{}\n", token.id));
            }
        }
        Output::Table => {
            let rows: Vec<_> = tokens.items.iter().map(row).collect();
            out::data(&table(
                ["TOKEN", "BUS", "EXPIRES IN", "FOR", "SPENT BY"],
                &rows,
            ));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Ends a token.
pub(crate) async fn revoke(cli: &Cli, id: &TokenId) -> anyhow::Result<ExitCode> {
    let applied = cli.client().revoke_token(id).await?;
    done(cli, applied.revision)
}

/// Tells a person at a terminal, who sees the token anyway, what to type next. In a log there is no word of it.
fn hint(token: &str, node: Option<&NodeName>) {
    if !std::io::stderr().is_terminal() {
        return;
    }
    let enrol = mesh_host::how_to_run("enrol");
    let line = match node {
        Some(node) => format!("  MESH_TOKEN={token} {enrol} --dir ./{node}"),
        None => format!("  MESH_TOKEN={token} {enrol} --dir ./NAME --name NAME"),
    };
    out::note("on the host that is to join, with a folder of its own:");
    out::note(&line);
}
