//! Credentials for modules: made here, sealed at once, never kept unsealed.

use mesh_agent::BusKind;
use mesh_auth::keys::{BoxPublic, UserKey};
use mesh_control::{Mint, MintError, Minted};
use mesh_model::{BoxPublicKey, InstanceRef, Sealed};

/// Makes keys from the system's randomness, for a bus of this kind.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SystemMint(pub(crate) BusKind);

impl Mint for SystemMint {
    fn mint(&mut self, instance: &InstanceRef, to: &BoxPublicKey) -> Result<Minted, MintError> {
        mint(self.0, to).map_err(|why| MintError {
            instance: instance.clone(),
            why: format!("{why:#}"),
        })
    }
}

fn mint(kind: BusKind, to: &BoxPublicKey) -> anyhow::Result<Minted> {
    let to: BoxPublic = to.as_str().parse()?;
    let key = UserKey::generate()?;
    let sealed = mesh_auth::seal::seal(&to, key.seed().expose().as_bytes())?;
    Ok(Minted {
        key: kind.public(&key)?,
        credential: Sealed(sealed.into_bytes()),
    })
}
