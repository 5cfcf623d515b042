//! Cases about what streams store.

use mesh_derive::{Change, Part, Plan, subject};
use mesh_model::{Manifest, ModuleName, Records};

use crate::stage::{
    add_module, add_seat, consumer, filter, finds, manifest, named, plan, plan_of, records, stream,
};

/// Who stores a subject, of these streams.
fn stored_by(plan: &Plan, text: &str) -> Vec<String> {
    let subject = filter(text);
    let stores = |spec: &&mesh_model::StreamSpec| {
        let mut subjects = spec.subjects.iter();
        subjects.any(|stores| subject.overlaps(stores))
    };
    let storing = plan.streams.values().filter(stores);
    storing.map(|spec| spec.name.to_string()).collect()
}

/// A stream that begins with wildcards is always refused: it meets the server's own subjects.
/// <https://github.com/nats-io/nats-server/issues/6846>
#[test]
fn case_b_ad19e10_a_stream_begins_with_a_literal_token_that_is_not_the_servers() {
    for spec in plan().streams.values() {
        for subject in &spec.subjects {
            assert_eq!(subject.tokens().next(), Some("mesh"), "{subject}");
        }
    }
    for wide in ["*.*.events.>", "*.>", ">", "$JS.API.*.x", "*.API.INFO"] {
        let said = format!("stream PARKED: {wide} meets the server's own subjects");
        finds(&said, |plan| {
            stream(plan, "PARKED").subjects.insert(filter(wide));
        });
    }
}

/// Subjects of one stream that meet: messages twice in older servers, no restore in newer ones.
/// <https://github.com/nats-io/nats-server/pull/3429>
#[test]
fn case_b_f1926f5_subjects_of_one_stream_that_meet_are_refused() {
    for (inside, said) in [
        (
            "mesh.mod.a.*",
            "EVENTS: stores mesh.mod.>, and EVENTS stores mesh.mod.a.*",
        ),
        (
            "mesh.*.a",
            "EVENTS: stores mesh.*.a, and EVENTS stores mesh.mod.>",
        ),
    ] {
        finds(said, |plan| {
            stream(plan, "EVENTS").subjects.insert(filter(inside));
        });
    }
}

/// An event moves from one stream to another in one apply, and for a while both store it.
/// <https://github.com/nats-io/nats-server/issues/2144>
///
/// Which stream stores a subject follows from its second token, so no change of what is declared moves one; a plan in
/// which two store it is refused.
#[test]
fn case_b_0462d44_no_change_moves_a_subject_to_another_stream_and_no_two_store_it() {
    let before = plan();
    let mut changed = records();
    add_seat(&mut changed, "events", None);
    add_seat(&mut changed, "mod", None);
    let shop = changed.declared.modules.get_mut(&named("shop")).unwrap();
    shop.emits = [named("seat.mail"), named("moved")].into();
    let after = plan_of(&changed);
    for text in [
        "mesh.mod.shop.sold",
        "mesh.mod.shop.moved",
        "mesh.mod.shop.seat.mail",
    ] {
        assert_eq!(stored_by(&before, text), ["EVENTS"], "{text}");
        assert_eq!(stored_by(&after, text), ["EVENTS"], "{text}");
    }
    assert_eq!(stored_by(&after, "mesh.seat.mail.shop"), ["SEAT-mail"]);
    finds(
        "EVENTS: stores mesh.mod.>, and SEAT-mail stores mesh.mod.shop.sold",
        |plan| {
            let moved = filter("mesh.mod.shop.sold");
            stream(plan, "SEAT-mail").subjects.insert(moved);
        },
    );
}

/// `shop` becomes `store` with the events it had.
fn renamed() -> Records {
    let mut records = records();
    let shop: ModuleName = named("shop");
    records.declared.modules.remove(&shop);
    records.declared.placements.remove(&shop);
    records.instances.retain(|of, _| of.module != shop);
    let store = Manifest {
        emits: [named("sold")].into(),
        sends_to: [named("mail")].into(),
        ..manifest("store")
    };
    add_module(&mut records, store, &["node1"]);
    let clerk = records.declared.modules.get_mut(&named("clerk")).unwrap();
    clerk.follows = [named("store.sold")].into();
    records
}

/// A rename makes the new stream first, which overlaps the old one, and is tried for ever.
/// <https://github.com/nats-io/nack/issues/120>
#[test]
fn case_b_20e3d4d_a_renamed_module_brings_no_stream_and_meets_nothing_of_before() {
    let (before, records) = (plan(), renamed());
    let after = plan_of(&records);
    assert_eq!(after.check(&records.bus), vec![]);
    assert_eq!(after.streams, before.streams);
    // Its consumer is changed where it stands, and who it was has gone.
    let differences = before.diff(&after).differences;
    let on = |part: Part| {
        let at = differences.iter().filter(move |d| d.of == part);
        at.map(|d| d.change.clone()).collect::<Vec<_>>()
    };
    assert_eq!(
        on(Part::Consumer(consumer("EVENTS/clerk"))),
        [
            Change::Selects(filter("mesh.mod.store.sold")),
            Change::SelectsNoMore(filter("mesh.mod.shop.sold"))
        ]
    );
    assert_eq!(on(Part::Principal(named("module/shop"))), [Change::Goes]);
    // A renamed seat is another queue with other subjects: neither is in the other's way while the old one empties.
    let mut both = records;
    add_seat(&mut both, "post", None);
    let with_both = plan_of(&both);
    assert_eq!(with_both.check(&both.bus), vec![]);
    let (old, new) = (
        subject::works(&named("mail")),
        subject::works(&named("post")),
    );
    assert!(!old.overlaps(&new));
}
