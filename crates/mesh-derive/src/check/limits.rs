//! What a server takes at most: found before it is applied, with the limit named.

use std::fmt;

use mesh_model::{BusFacts, Principal};
use serde::{Deserialize, Serialize};

use crate::check::mismatch::{LimitFault, Mismatch};
use crate::plan::Plan;
use crate::render::jwt_bytes;

/// Bytes of a protocol line, as a server takes them unless it is told otherwise (`max_control_line`).
const CONTROL_LINE: usize = 4096;
/// Bytes of a CONNECT besides the JWT in it: the signature, the client's name, its version and what it can do.
const CONNECT_BESIDES: usize = 396;
/// Bytes of the largest JWT that fits into the CONNECT of a client, on a server that was not told to take longer lines.
pub const JWT_LIMIT: usize = CONTROL_LINE - CONNECT_BESIDES;
/// Filters of one consumer. A server compares each with each when it makes one: 5,000 take it two seconds, in which it
/// answers nobody else.
const FILTERS: usize = 5000;
/// Bytes of the request that makes a consumer: those of a message (`max_payload`), with room for all but the filters.
const REQUEST: usize = (1 << 20) - 4096;

impl Plan {
    pub(super) fn check_limits(&self, bus: &BusFacts, found: &mut Vec<Mismatch>) {
        let mut faults = Vec::new();
        if in_operator_mode(bus) {
            for (principal, grant) in &self.grants {
                let bytes = jwt_bytes(principal, grant);
                // A module has no credential of its own: its instances' are at least as large.
                if bytes > JWT_LIMIT && !matches!(principal, Principal::Module(_)) {
                    faults.push(LimitFault::GrantTooLarge {
                        principal: principal.clone(),
                        bytes,
                        limit: JWT_LIMIT,
                    });
                }
            }
        }
        for spec in self.consumers.values() {
            let count = spec.selects.filters().count();
            let quoted = |filter: &mesh_model::Filter| filter.as_str().len() + 3;
            let bytes: usize = spec.selects.filters().map(quoted).sum();
            for (what, found, limit) in [
                (Counted::Filters, count, FILTERS),
                (Counted::RequestBytes, bytes, REQUEST),
            ] {
                if found > limit {
                    faults.push(LimitFault::TooManyFilters {
                        consumer: spec.consumer.clone(),
                        what,
                        found,
                        limit,
                    });
                }
            }
        }
        found.extend(faults.into_iter().map(Mismatch::Limit));
    }
}

/// What of a consumer is too much.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Counted {
    /// How many filters it has.
    Filters,
    /// How long the request is that makes it.
    RequestBytes,
}

impl fmt::Display for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Filters => "filters",
            Self::RequestBytes => "bytes of filters",
        })
    }
}

/// Whether grants are carried by user JWTs: there an account is known by its public key and not by a name.
pub fn in_operator_mode(bus: &BusFacts) -> bool {
    let digit = |byte: u8| matches!(byte, b'A'..=b'Z' | b'2'..=b'7');
    bus.account.len() == 56 && bus.account.starts_with('A') && bus.account.bytes().all(digit)
}
