//! Generators: any fact, and the key of any.

use mesh_control::{AuditFact, Fact, FactKey, MeshFact};
use mesh_model::{
    Assigner, CredentialLife, InstanceRecord, InstanceRef, Manifest, Moving, NodeRecord, Placement,
    Retiring, Revision, Scheduling, SeatRecord, SeatSpec, SecretRecord, Selector, Spent,
    TokenRecord,
};
use proptest::collection::btree_set;
use proptest::option::of;
use proptest::prelude::*;

use crate::any::{
    box_key, bus, declaration, event, health, key, labels, name, number, report, report_id,
    restart, run, sealed, secret_name, secrets, text, time,
};

fn moving() -> impl Strategy<Value = Moving> {
    prop_oneof![
        (bus(), key(), sealed(), time()).prop_map(|(to, key, credential, since)| {
            Moving::Proving {
                to,
                key,
                credential,
                since,
            }
        }),
        bus().prop_map(|from| Moving::Leaving { from }),
    ]
}

fn manifest() -> impl Strategy<Value = Manifest> {
    let process = (text(), run(), labels(), restart());
    let events = (btree_set(event(), 0..3), btree_set(event(), 0..3));
    let seats = (btree_set(name(), 0..3), btree_set(name(), 0..3));
    let needs = (
        btree_set(name(), 0..3),
        of(health()),
        btree_set(secret_name(), 0..3),
    );
    (name(), process, needs, events, seats).prop_map(
        |(
            module,
            (release, run, env, restart),
            (after, health, secrets),
            (emits, follows),
            (can_hold, sends_to),
        )| Manifest {
            module,
            release,
            run,
            after,
            env,
            restart,
            health,
            secrets,
            emits,
            follows,
            can_hold,
            sends_to,
        },
    )
}

fn placement() -> impl Strategy<Value = Placement> {
    let on = prop_oneof![
        btree_set(name(), 0..3).prop_map(Selector::Nodes),
        labels().prop_map(Selector::Labels),
    ];
    (on, of(1_u32..)).prop_map(|(on, count)| Placement {
        on,
        count: count.and_then(std::num::NonZeroU32::new),
    })
}

fn seat_spec() -> impl Strategy<Value = SeatSpec> {
    (of(name()), of(number())).prop_map(|(holder, failover)| SeatSpec { holder, failover })
}

fn seat_record() -> impl Strategy<Value = SeatRecord> {
    let by = prop_oneof![Just(Assigner::Operator), Just(Assigner::Failover)];
    (of(name()), by).prop_map(|(assigned, by)| SeatRecord { assigned, by })
}

fn secret_record() -> impl Strategy<Value = SecretRecord> {
    (number(), time(), sealed()).prop_map(|(version, set, sealed)| SecretRecord {
        version,
        set,
        sealed,
    })
}

fn node_record() -> impl Strategy<Value = NodeRecord> {
    use Scheduling::{Cordoned, Drained, Open};
    let scheduling = prop::sample::select(vec![Open, Open, Cordoned, Drained]);
    let on = (bus(), of(moving()), scheduling);
    (key(), box_key(), labels(), name(), time(), on).prop_map(
        |(key, box_key, labels, token, enrolled, (bus, moving, scheduling))| NodeRecord {
            bus,
            moving,
            key,
            box_key,
            labels,
            token,
            enrolled,
            scheduling,
        },
    )
}

fn token_record() -> impl Strategy<Value = TokenRecord> {
    let spent = (name(), key(), any::<bool>()).prop_map(|(node, key, arrived)| Spent {
        node,
        key,
        arrived,
    });
    let spent = of(spent);
    let kept = (key(), time(), of(name()), labels(), any::<bool>(), spent);
    (kept, bus()).prop_map(
        |((key, expires, node, labels, rejoin, spent), bus)| TokenRecord {
            bus,
            key,
            expires,
            node,
            labels,
            rejoin,
            spent,
        },
    )
}

fn instance() -> impl Strategy<Value = InstanceRef> {
    (name(), name()).prop_map(|(module, node)| InstanceRef { module, node })
}

fn life() -> impl Strategy<Value = CredentialLife> {
    let retiring = (key(), time()).prop_map(|(key, until)| Retiring { key, until });
    let life =
        (of(time()), of(retiring), btree_set(key(), 0..3)).prop_map(|(made, retiring, accepts)| {
            CredentialLife {
                made,
                retiring,
                accepts,
            }
        });
    prop_oneof![Just(CredentialLife::default()), life]
}

fn instance_record() -> impl Strategy<Value = InstanceRecord> {
    (key(), sealed(), box_key(), bus(), secrets(), life()).prop_map(
        |(key, credential, sealed_to, bus, secrets, life)| InstanceRecord {
            bus,
            key,
            credential,
            sealed_to,
            secrets,
            life,
        },
    )
}

pub(crate) fn fact() -> impl Strategy<Value = Fact> {
    let mesh = (name(), number(), number()).prop_map(|(name, revision, incarnation)| MeshFact {
        name,
        revision: Revision(revision),
        incarnation,
    });
    let audit = (number(), time(), text(), text()).prop_map(|(revision, at, who, what)| {
        let revision = Revision(revision);
        AuditFact {
            revision,
            at,
            who,
            what,
        }
    });
    prop_oneof![
        mesh.prop_map(Fact::Mesh),
        manifest().prop_map(Fact::Module),
        (name(), seat_spec()).prop_map(|(seat, spec)| Fact::Seat(seat, spec)),
        (name(), placement()).prop_map(|(module, on)| Fact::Placed(module, on)),
        (name(), seat_record()).prop_map(|(seat, record)| Fact::Assigned(seat, record)),
        (name(), node_record()).prop_map(|(node, record)| Fact::Node(node, record)),
        (name(), token_record()).prop_map(|(token, record)| Fact::Token(token, record)),
        (instance(), instance_record()).prop_map(|(of, record)| Fact::Instance(of, record)),
        (secret_name(), secret_record()).prop_map(|(name, record)| Fact::Secret(name, record)),
        declaration().prop_map(Fact::Declaration),
        report().prop_map(Fact::Report),
        audit.prop_map(Fact::Audit),
    ]
}

pub(crate) fn fact_key() -> impl Strategy<Value = FactKey> {
    prop_oneof![
        Just(FactKey::Mesh),
        name().prop_map(FactKey::Module),
        name().prop_map(FactKey::Seat),
        name().prop_map(FactKey::Placed),
        name().prop_map(FactKey::Assigned),
        name().prop_map(FactKey::Node),
        name().prop_map(FactKey::Token),
        instance().prop_map(FactKey::Instance),
        secret_name().prop_map(FactKey::Secret),
        name().prop_map(FactKey::Declaration),
        report_id().prop_map(FactKey::Report),
        number().prop_map(|revision| FactKey::Audit(Revision(revision))),
    ]
}

/// Two keys of one kind.
pub(crate) fn fact_keys_of_a_kind() -> impl Strategy<Value = [FactKey; 2]> {
    let ids = (report_id(), report_id(), 0..4).prop_map(|(a, mut b, shared)| {
        // Left to chance, two reports hardly ever differ in their last numbers alone.
        if shared > 0 {
            b.node = a.node.clone();
        }
        if shared > 1 {
            b.generation.incarnation = a.generation.incarnation;
        }
        if shared > 2 {
            b.generation.counter = a.generation.counter;
        }
        [a, b].map(FactKey::Report)
    });
    let refs = (instance(), instance()).prop_map(|(a, b)| [a, b].map(FactKey::Instance));
    let nodes = (name(), name()).prop_map(|(a, b)| [a, b].map(FactKey::Node));
    let secrets = (secret_name(), secret_name()).prop_map(|(a, b)| [a, b].map(FactKey::Secret));
    let audits =
        (number(), number()).prop_map(|(a, b)| [a, b].map(|n| FactKey::Audit(Revision(n))));
    prop_oneof![ids, refs, nodes, secrets, audits]
}
