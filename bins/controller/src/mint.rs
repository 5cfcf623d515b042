//! Credentials for modules: made here, sealed at once, never kept unsealed.

use mesh_auth::keys::{BoxPublic, UserKey};
use mesh_control::{Mint, MintError, Minted};
use mesh_model::{BoxPublicKey, BusKind, Principal, Sealed};

/// Makes keys from the system's randomness.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SystemMint;

impl Mint for SystemMint {
    fn mint(
        &mut self,
        whom: &Principal,
        bus: BusKind,
        to: &BoxPublicKey,
    ) -> Result<Minted, MintError> {
        mint(bus, to).map_err(|why| MintError {
            whom: whom.clone(),
            why: format!("{why:#}"),
        })
    }
}

fn mint(bus: BusKind, to: &BoxPublicKey) -> anyhow::Result<Minted> {
    let to: BoxPublic = to.as_str().parse()?;
    let key = UserKey::generate()?;
    let sealed = mesh_auth::seal::seal(&to, key.seed().expose().as_bytes())?;
    Ok(Minted {
        key: mesh_agent::public_on(bus, &key)?,
        credential: Sealed(sealed.into_bytes()),
    })
}
