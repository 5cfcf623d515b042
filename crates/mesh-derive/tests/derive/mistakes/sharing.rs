//! Mistakes in what the accounts share.

use mesh_derive::{Mismatch, Share, SharingFault};

use super::{filter, found};

fn exported(share: Share) -> Vec<Mismatch> {
    found(move |plan| assert!(plan.accounts.mesh_exports.insert(share)))
}

fn stream(text: &str) -> Share {
    Share::Stream(filter(text))
}

fn service(text: &str) -> Share {
    Share::Service(filter(text))
}

/// D28
#[test]
fn whatever_lets_edge_reach_the_server_is_refused() {
    for text in [
        ">",
        "$JS.>",
        "$JS.API.>",
        "$JS.API.CONSUMER.CREATE.NODES.*",
        "$SYS.>",
        "*.>",
    ] {
        for share in [stream(text), service(text)] {
            let fault = SharingFault::Server {
                share: share.clone(),
            };
            assert_eq!(exported(share), [Mismatch::Sharing(fault)], "{text}");
        }
    }
}

/// D28
#[test]
fn a_share_wider_than_what_crosses_is_refused() {
    for share in [
        stream("mesh.>"),
        service("mesh.*.report.>"),
        stream("mesh.*.node.>"),
    ] {
        let found = exported(share.clone());
        let wide = |mismatch: &Mismatch| matches!(mismatch, Mismatch::Sharing(SharingFault::TooWide { share: of, .. }) if *of == share);
        assert!(found.iter().any(wide), "{share}: {found:?}");
    }
}

/// D28
#[test]
fn a_share_of_what_nobody_needs_is_refused() {
    for share in [
        stream("mesh.ctl.mark"),
        service("mesh.node.*.declare"),
        stream("mesh.parked.>"),
    ] {
        let fault = SharingFault::ForNothing {
            share: share.clone(),
        };
        assert_eq!(exported(share), [Mismatch::Sharing(fault)]);
    }
    let back = found(|plan| assert!(plan.accounts.edge_exports.insert(stream("mesh.control.>"))));
    let fault = SharingFault::ForNothing {
        share: stream("mesh.control.>"),
    };
    assert_eq!(back, [Mismatch::Sharing(fault)]);
}

/// D28
#[test]
fn a_service_where_a_stream_is_needed_is_refused_and_so_is_the_other_way_about() {
    for (wrong, needed) in [
        (service("mesh.deliver.>"), stream("mesh.deliver.>")),
        (stream("mesh.control.>"), service("mesh.control.>")),
        (stream("$JS.ACK.>"), service("$JS.ACK.>")),
    ] {
        let found = found(|plan| {
            plan.accounts.mesh_exports.remove(&needed);
            plan.accounts.mesh_exports.insert(wrong.clone());
        });
        let fault = SharingFault::OtherKind {
            share: wrong.clone(),
            needed: needed.clone(),
        };
        assert!(
            found.contains(&Mismatch::Sharing(fault)),
            "{wrong}: {found:?}"
        );
        // And whoever needed it is named as well.
        assert!(found.len() > 1, "{wrong}: {found:?}");
    }
}
