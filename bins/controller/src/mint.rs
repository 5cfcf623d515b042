//! Credentials for modules: made here, sealed at once, never kept unsealed; and secrets, sealed from one key to another.

use mesh_auth::keys::{BoxKey, BoxPublic, UserKey};
use mesh_control::{Mint, MintError, Minted};
use mesh_model::{BoxPublicKey, BusKind, Principal, Sealed};

/// Makes keys from the system's randomness.
#[derive(Debug, Clone)]
pub(crate) struct SystemMint {
    /// What operators' secrets are sealed to.
    pub(crate) secrets: BoxKey,
}

impl Mint for SystemMint {
    fn mint(
        &mut self,
        whom: &Principal,
        bus: BusKind,
        to: &BoxPublicKey,
    ) -> Result<Minted, MintError> {
        mint(bus, to).map_err(|why| MintError {
            whom: whom.clone(),
            why: format!("{why:#}; re-enrol the node with `meshctl node rejoin`"),
        })
    }

    fn reseal(
        &mut self,
        whom: &Principal,
        sealed: &Sealed,
        to: &BoxPublicKey,
    ) -> Result<Sealed, MintError> {
        reseal(&self.secrets, sealed, to).map_err(|why| MintError {
            whom: whom.clone(),
            why: format!("{why:#}; set its secrets again with `meshctl secret set`"),
        })
    }
}

fn reseal(own: &BoxKey, sealed: &Sealed, to: &BoxPublicKey) -> anyhow::Result<Sealed> {
    let to: BoxPublic = to.as_str().parse()?;
    let sealed = mesh_auth::seal::Sealed::from_bytes(sealed.0.clone());
    let opened = mesh_auth::seal::open(own, &sealed)?;
    let sealed = mesh_auth::seal::seal(&to, opened.expose())?;
    Ok(Sealed(sealed.into_bytes()))
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
