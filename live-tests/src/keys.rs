//! The keys of everybody in a mesh, in one place, which no mesh has outside a test.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mesh_auth::keys::{BoxKey, BoxPublic, UserKey};
use mesh_auth::seal::seal;
use mesh_control::{Mint, MintError, Minted};
use mesh_model::{
    BoxPublicKey, BusKind, Labels, NodeName, NodeRecord, Principal, PublicKey, Records, Sealed,
    Timestamp,
};
use mesh_nats::Credential;

use crate::server::Server;

/// Keys by whose they are, made when they are first asked for. Clones hold the same keys.
#[derive(Debug, Clone, Default)]
pub struct KeyRing(Arc<Mutex<Keys>>);

#[derive(Debug, Default)]
struct Keys {
    users: BTreeMap<Principal, UserKey>,
    boxes: BTreeMap<NodeName, BoxKey>,
}

impl KeyRing {
    /// Somebody's key.
    pub fn user(&self, who: &Principal) -> anyhow::Result<UserKey> {
        let mut keys = self.keys();
        if let Some(key) = keys.users.get(who) {
            return Ok(key.clone());
        }
        let key = UserKey::generate()?;
        keys.users.insert(who.clone(), key.clone());
        Ok(key)
    }

    /// What somebody connects with.
    pub fn credential(&self, who: &Principal) -> anyhow::Result<Credential> {
        Ok(credential(&self.user(who)?))
    }

    /// The half of somebody's key that stands in records.
    pub fn public(&self, who: &Principal) -> anyhow::Result<PublicKey> {
        public(&self.user(who)?)
    }

    /// The key secrets are sealed to for a node.
    pub fn box_key(&self, node: &NodeName) -> anyhow::Result<BoxPublicKey> {
        let mut keys = self.keys();
        let key = match keys.boxes.get(node) {
            Some(key) => key.clone(),
            None => BoxKey::generate()?,
        };
        let public = BoxPublicKey::new(key.public().as_str())?;
        keys.boxes.insert(node.clone(), key);
        Ok(public)
    }

    /// What there is to derive from in a mesh of these nodes and nothing else.
    pub fn records_of(&self, nodes: &[&str]) -> anyhow::Result<Records> {
        let mut records = Records::new("live".parse()?, Server::facts());
        for name in nodes {
            let node: NodeName = name.parse()?;
            let record = NodeRecord {
                bus: BusKind::Nats,
                moving: None,
                key: self.public(&Principal::Node(node.clone()))?,
                box_key: BoxPublicKey::from_raw([0; 32]),
                labels: Labels::new(),
                token: "spent".parse()?,
                enrolled: Timestamp::default(),
                scheduling: mesh_model::Scheduling::Open,
            };
            records.nodes.insert(node, record);
        }
        Ok(records)
    }

    fn keys(&self) -> MutexGuard<'_, Keys> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn make(&self, whom: &Principal, to: &BoxPublicKey) -> anyhow::Result<Minted> {
        let to: BoxPublic = to.as_str().parse()?;
        let key = UserKey::generate()?;
        let minted = Minted {
            key: public(&key)?,
            credential: Sealed(seal(&to, key.seed().expose().as_bytes())?.into_bytes()),
        };
        self.keys().users.insert(whom.clone(), key);
        Ok(minted)
    }
}

impl Mint for KeyRing {
    fn mint(
        &mut self,
        whom: &Principal,
        _: BusKind,
        to: &BoxPublicKey,
    ) -> Result<Minted, MintError> {
        self.make(whom, to).map_err(|why| MintError {
            whom: whom.clone(),
            why: format!("{why:#}"),
        })
    }

    fn reseal(
        &mut self,
        whom: &Principal,
        _: &Sealed,
        _: &BoxPublicKey,
    ) -> Result<Sealed, MintError> {
        let (whom, why) = (whom.clone(), "it holds no secret".to_owned());
        Err(MintError { whom, why })
    }
}

/// The public half as records hold it.
pub(crate) fn public(key: &UserKey) -> anyhow::Result<PublicKey> {
    Ok(PublicKey::new(key.public().as_str())?)
}

/// What the owner of a key connects with.
pub(crate) fn credential(key: &UserKey) -> Credential {
    Credential::NKeySeed(key.seed().expose().to_owned())
}
