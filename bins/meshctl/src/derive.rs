//! Authority from a directory alone.

use std::path::Path;
use std::process::ExitCode;

use mesh_derive::{Bounds, JWT_LIMIT, derive as derive_plan, render};
use mesh_model::{BusFacts, Records};

use crate::cli::{Cli, Output};
use crate::declare::load;
use crate::out;

/// Derives what a mesh of no node yet would hold, and prints each grant with its size.
pub(crate) fn derive(cli: &Cli, dir: &Path) -> anyhow::Result<ExitCode> {
    let declared = load(dir)?;
    let bus = BusFacts {
        domain: None,
        account: render::nats_conf::MESH_ACCOUNT.to_owned(),
    };
    let mut records = Records::new(declared.mesh.clone(), bus);
    records.declared = declared;
    let plan = derive_plan(&records, &Bounds::default());
    let mismatches = plan.check(&records.bus);
    match cli.output {
        Output::Json => out::data(&format!("{:#}\n", render::json(&plan))),
        Output::Table => out::data(&render::table(&plan)),
        Output::Name => {
            let names = plan.grants.keys().map(|principal| format!("{principal}\n"));
            out::data(&names.collect::<String>());
        }
    }
    for (principal, grant) in &plan.grants {
        let bytes = render::jwt::jwt_bytes(principal, grant);
        // An instance's is larger by its inbox, and by the names in it.
        if bytes > JWT_LIMIT {
            out::note(&format!(
                "meshctl: {principal}: {bytes} bytes as a user JWT, and max_control_line (4096 bytes unless a server is told \
                 otherwise) leaves {JWT_LIMIT}: such a server in operator mode is refused, one with a users file takes it"
            ));
        }
    }
    for mismatch in &mismatches {
        out::note(&format!("meshctl: {mismatch}"));
    }
    Ok(ExitCode::from(u8::from(!mismatches.is_empty())))
}
