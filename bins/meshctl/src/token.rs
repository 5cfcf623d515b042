//! Tokens.

use std::process::ExitCode;
use std::time::Duration;

use mesh_api::{TokenCreated, TokenRequest};
use mesh_model::NodeName;

use crate::cli::{Cli, Output, TokenCreate};
use crate::declare::pairs;
use crate::out;

/// Makes a token.
pub(crate) async fn create(cli: &Cli, create: &TokenCreate) -> anyhow::Result<ExitCode> {
    let request = TokenRequest {
        ttl_secs: create.ttl.as_secs(),
        node: create.node.clone(),
        labels: pairs(&create.labels)?,
        rejoin: false,
    };
    show(
        cli,
        &cli.client().create_token(&request).await?,
        request.node.as_ref(),
    )
}

/// Makes a token that replaces a node's key.
pub(crate) async fn rejoin(cli: &Cli, node: &NodeName, ttl: Duration) -> anyhow::Result<ExitCode> {
    let request = TokenRequest {
        ttl_secs: ttl.as_secs(),
        node: Some(node.clone()),
        labels: std::collections::BTreeMap::new(),
        rejoin: true,
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
        Output::Name => out::data(&format!("{}\n", token.id)),
        Output::Table => {
            out::data(&format!("{}\n", token.token));
            let enrol = mesh_host::how_to_run("enrol");
            let (token, name) = (&token.token, node.map_or("NAME", NodeName::as_str));
            out::note("on the host that is to join, with a folder of its own:");
            out::note(&format!("  {enrol} {token} --dir ./{name}"));
        }
    }
    Ok(ExitCode::SUCCESS)
}
