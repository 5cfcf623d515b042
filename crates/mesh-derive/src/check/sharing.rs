//! What the accounts share: enough for whoever lives in `EDGE`, and nothing besides.

use mesh_model::Filter;

use crate::ack::acks;
use crate::check::Mismatch;
use crate::check::mismatch::SharingFault;
use crate::check::plan::server_subjects;
use crate::derive::accounts;
use crate::plan::{Accounts, Plan, Share};

impl Plan {
    /// Each share is one that something crosses by. What is in neither direction's list is nobody's need.
    pub(super) fn check_sharing(&self, found: &mut Vec<Mismatch>) {
        let needed = accounts();
        let directions = [
            (&self.accounts.mesh_exports, &needed.mesh_exports),
            (&self.accounts.edge_exports, &needed.edge_exports),
        ];
        for (exports, needed) in directions {
            for share in exports.iter().filter(|share| !needed.contains(share)) {
                let inside = needed
                    .iter()
                    .any(|need| need.is_stream() == share.is_stream() && within(share, need));
                if !inside {
                    let fault = fault(share, needed.iter());
                    found.push(Mismatch::Sharing(fault));
                }
            }
        }
    }
}

fn within(share: &Share, need: &Share) -> bool {
    share.filter().is_subset_of(need.filter())
}

fn fault<'a>(share: &Share, mut needed: impl Iterator<Item = &'a Share> + Clone) -> SharingFault {
    let (filter, share) = (share.filter(), share.clone());
    let settles = filter.is_subset_of(&acks());
    if !settles && server_subjects().iter().any(|of| of.overlaps(filter)) {
        return SharingFault::Server { share };
    }
    if let Some(need) = needed.clone().find(|need| within(&share, need)) {
        return SharingFault::OtherKind {
            share,
            needed: need.clone(),
        };
    }
    match needed.find(|need| need.filter().overlaps(share.filter())) {
        Some(need) => SharingFault::TooWide {
            needed: need.clone(),
            share,
        },
        None => SharingFault::ForNothing { share },
    }
}

/// What crosses, made ready to be asked for each entry of each grant.
pub(super) struct Carried<'a> {
    to_mesh: Vec<Way<'a>>,
    to_edge: Vec<Way<'a>>,
    /// Whether every ack crosses.
    pub(super) acks: bool,
}

/// A share as one looks at it: nearly all are a literal beginning and then anything.
enum Way<'a> {
    Beginning(&'a str),
    Other(&'a Filter),
}

impl<'a> Carried<'a> {
    pub(super) fn by(accounts: &'a Accounts) -> Self {
        let services = accounts.mesh_exports.iter().filter_map(Share::service);
        let beats = accounts.edge_exports.iter().filter_map(Share::stream);
        let streams = accounts.mesh_exports.iter().filter_map(Share::stream);
        let to_mesh: Vec<Way<'_>> = services.chain(beats).map(Way::of).collect();
        Self {
            acks: to_mesh.iter().any(|way| way.takes(&acks())),
            to_mesh,
            to_edge: streams.map(Way::of).collect(),
        }
    }

    /// Whether somebody in `EDGE` who publishes here is heard in `MESH`.
    pub(super) fn to_mesh(&self, filter: &Filter) -> bool {
        self.to_mesh.iter().any(|way| way.takes(filter))
    }

    /// Whether somebody in `EDGE` who subscribes here hears `MESH`.
    pub(super) fn to_edge(&self, filter: &Filter) -> bool {
        self.to_edge.iter().any(|way| way.takes(filter))
    }
}

impl<'a> Way<'a> {
    fn of(filter: &'a Filter) -> Self {
        match filter.as_str().strip_suffix('>') {
            Some(beginning) if !beginning.is_empty() && !beginning.contains(['*', '>']) => {
                Self::Beginning(beginning)
            }
            _ => Self::Other(filter),
        }
    }

    fn takes(&self, filter: &Filter) -> bool {
        match self {
            Self::Beginning(beginning) => filter.as_str().starts_with(beginning),
            Self::Other(share) => filter.is_subset_of(share),
        }
    }
}
