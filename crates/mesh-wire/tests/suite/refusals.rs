//! What a reader is told about bytes it cannot use: what they were to be, which field, which rule, what to do.

use mesh_wire::{
    DiskEntry, decode_declaration, decode_enrolment, decode_heartbeat, decode_report,
    encode_declaration, encode_enrolment, encode_heartbeat, encode_report, fact_entry, read_fact,
};

use crate::samples;

/// The bytes with every `from` in them turned `into` as many others.
fn replaced(bytes: &[u8], from: &str, into: &str) -> Vec<u8> {
    assert_eq!(from.len(), into.len());
    let mut bytes = bytes.to_vec();
    let mut found = false;
    for at in 0..=bytes.len() - from.len() {
        let window = &mut bytes[at..at + from.len()];
        if window == from.as_bytes() {
            window.copy_from_slice(into.as_bytes());
            found = true;
        }
    }
    assert!(found, "no {from} in it");
    bytes
}

#[test]
fn a_text_that_is_no_name_is_refused_naming_the_field_and_the_rule() {
    let label =
        "is not one of a-z, 0-9 and '-' (names are RFC 1123 labels: no dots, no upper case)";
    let report = encode_report(&samples::reports()[0]);
    assert_eq!(
        decode_report(&replaced(&report, "web-1", "web.1")).map_err(|error| error.to_string()),
        Err(format!(
            "the report holds an invalid node: node name \"web.1\": '.' at byte 3 {label}"
        ))
    );
    let declaration = encode_declaration(&samples::declarations()[1]);
    assert_eq!(
        decode_declaration(&replaced(&declaration, "clock", "Clock"))
            .map_err(|error| error.to_string()),
        Err(format!(
            "the declaration holds an invalid workloads.after: module name \"Clock\": 'C' at byte 0 {label}"
        ))
    );
    let enrolment = encode_enrolment(&samples::enrolments()[0]);
    assert_eq!(
        decode_enrolment(&replaced(&enrolment, "joiner.a1b2", "joiner.*.b2"))
            .map_err(|error| error.to_string()),
        Err(
            "the enrolment holds an invalid reply: subject \"_INBOX_mesh.joiner.*.b2.x\" has a wildcard token where \
             every token must be literal"
                .to_owned()
        )
    );
}

#[test]
fn a_record_that_is_not_ours_to_read_is_refused_saying_why() {
    let DiskEntry {
        key,
        kind,
        version,
        body,
    } = fact_entry(&samples::facts()[0]);
    for (key, kind, version, body, message) in [
        (
            &b"me\0sh"[..],
            kind,
            version,
            &body[..],
            "the mesh record is kept under the key \"me\\x00sh\" and belongs under \"mesh\"",
        ),
        (
            &key,
            200,
            version,
            &body,
            "a record is of kind 200, which this program does not know; upgrade this program",
        ),
        (
            &key,
            kind,
            9,
            &body,
            "the mesh record is written in version 9 and this program reads up to 1; upgrade this program",
        ),
        (
            &key,
            kind,
            0,
            &body,
            "the mesh record is malformed: there is no version 0",
        ),
        (&key, kind, version, &[], "the mesh record is empty"),
    ] {
        let error = read_fact(key, kind, version, body).map_err(|error| error.to_string());
        assert_eq!(error, Err(message.to_owned()));
    }
}

#[test]
fn what_a_node_says_of_itself_is_a_line_or_is_refused() {
    let module = |release: &str, reason: &str| mesh_model::ModuleReport {
        release: release.to_owned(),
        state: mesh_model::ModuleState::Failed,
        pid: None,
        restarts: 0,
        reason: Some(reason.to_owned()),
        image: None,
        last_exit: None,
        repairs: 0,
    };
    let reads = |outcome: &str, release: &str, reason: &str| {
        let mut report = samples::reports().remove(0);
        let reason_of_all = outcome.to_owned();
        report.outcome = mesh_model::Outcome::Failed {
            reason: reason_of_all,
        };
        report.modules = [("m".parse().unwrap(), module(release, reason))].into();
        decode_report(&encode_report(&report)).is_ok()
    };
    assert!(reads("a", "1", &"x".repeat(500)));
    for bad in ["\u{1b}[2J", "a\nb", "a\u{202e}b", &"x".repeat(501)] {
        assert!(!reads(bad, "1", "a"), "{bad:?}");
        assert!(!reads("a", bad, "a"), "{bad:?}");
        assert!(!reads("a", "1", bad), "{bad:?}");
        let mut heartbeat = samples::heartbeats().remove(0);
        bad.clone_into(&mut heartbeat.version);
        let bytes = encode_heartbeat(&heartbeat);
        assert!(decode_heartbeat(&bytes).is_err(), "{bad:?}");
    }
}
