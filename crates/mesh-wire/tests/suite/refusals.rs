//! What a reader is told about bytes it cannot use: what they were to be, which field, which rule, what to do.

use mesh_wire::{
    DiskEntry, decode_declaration, decode_enrolment, decode_heartbeat, decode_report,
    encode_declaration, encode_enrolment, encode_heartbeat, encode_report, fact_entry, read_fact,
};

use crate::{later, samples};

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
    let contained = |image: &str, how: &str| {
        let mut report = later::reports().remove(1);
        for module in report.modules.values_mut() {
            module.image = Some(image.to_owned());
            module.last_exit = Some(mesh_model::LastExit {
                at: mesh_model::Timestamp::default(),
                how: how.to_owned(),
            });
        }
        decode_report(&encode_report(&report)).is_ok()
    };
    assert!(contained("a", "b"));
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
        let mut heartbeat = later::heartbeats().remove(0);
        heartbeat.doing = [("m".parse().unwrap(), bad.to_owned())].into();
        let bytes = encode_heartbeat(&heartbeat);
        assert!(decode_heartbeat(&bytes).is_err(), "{bad:?}");
        assert!(!contained(bad, "a"), "{bad:?}");
        assert!(!contained("a", bad), "{bad:?}");
    }
}

#[test]
fn what_no_container_could_be_given_is_refused_naming_the_field() {
    type Change = fn(&mut mesh_model::Container);
    let cases: [(&str, Change); 7] = [
        ("", |_| {}),
        ("ports: \"0:25\" is no port", |it| {
            it.ports = [mesh_model::Port { host: 0, ..port() }].into();
        }),
        ("ports: \"8025:0\" is no port", |it| {
            it.ports = [mesh_model::Port {
                container: 0,
                ..port()
            }]
            .into();
        }),
        ("volumes: \"/a/../etc:/b:rw\" is no volume", |it| {
            it.volumes = [volume("/a/../etc", "/b")].into();
        }),
        ("volumes: \"-a:/b:rw\" is no volume", |it| {
            it.volumes = [volume("-a", "/b")].into();
        }),
        ("volumes: \"a:/run/mesh:rw\" is no volume", |it| {
            it.volumes = [volume("a", "/run/mesh")].into();
        }),
        ("volumes: \"a:/b:ro:rw\" is no volume", |it| {
            it.volumes = [volume("a", "/b:ro")].into();
        }),
    ];
    for (expected, change) in cases {
        let mut declaration = later::declarations().remove(0);
        for workload in &mut declaration.workloads {
            if let mesh_model::Run::Image(container) = &mut workload.run {
                change(container);
            }
        }
        let read = decode_declaration(&encode_declaration(&declaration));
        match read.map_err(|error| error.to_string()) {
            Ok(read) => assert_eq!((expected, read), ("", declaration)),
            Err(said) => assert!(!expected.is_empty() && said.contains(expected), "{said}"),
        }
    }
}

fn port() -> mesh_model::Port {
    "8025:25".parse().unwrap()
}

fn volume(source: &str, target: &str) -> mesh_model::Volume {
    mesh_model::Volume {
        source: source.to_owned(),
        target: target.to_owned(),
        read_only: false,
    }
}

#[test]
fn a_text_that_is_no_image_or_no_secret_is_refused_naming_the_field() {
    let bytes = encode_declaration(&later::declarations()[0]);
    for (from, into, expected) in [
        (
            "mail/mailer",
            "mail/Mailer",
            "the declaration holds an invalid image: ",
        ),
        (
            "REGISTRY",
            "REG-STRY",
            "the declaration holds an invalid pull_secret: ",
        ),
        (
            "SMTP_PASSWORD",
            "MESH_PASSWORD",
            "the declaration holds an invalid workloads.secrets: ",
        ),
    ] {
        let said = decode_declaration(&replaced(&bytes, from, into)).unwrap_err();
        assert!(said.to_string().starts_with(expected), "{said}");
    }
    let entries = later::facts();
    for (from, into, expected) in [
        (
            "mail/mailer",
            "mail//ailer",
            "the module record holds an invalid image: ",
        ),
        (
            "SMTP_PASSWORD",
            "smtp_password",
            "the module record holds an invalid secrets: ",
        ),
    ] {
        let found = entries.iter().map(fact_entry).find_map(|entry| {
            let holds = entry
                .body
                .windows(from.len())
                .any(|it| it == from.as_bytes());
            (holds && entry.kind == 2).then_some(entry)
        });
        let DiskEntry {
            key,
            kind,
            version,
            body,
        } = found.unwrap();
        let said = read_fact(&key, kind, version, &replaced(&body, from, into)).unwrap_err();
        assert!(said.to_string().starts_with(expected), "{said}");
    }
}

#[test]
fn what_an_earlier_version_says_is_not_read_in_a_later_one() {
    let first = |bytes: &[u8], version: u8, more: &[u8]| {
        assert_eq!(bytes[0], 0, "it is in the first version");
        [&[version - 1], &bytes[1..], more].concat()
    };
    let needs = "it is in a later version than it needs";
    let declaration = encode_declaration(&samples::declarations()[0]);
    let said = decode_declaration(&first(&declaration, 3, &[0])).unwrap_err();
    assert!(said.to_string().ends_with(needs), "{said}");
    let report = encode_report(&samples::reports()[0]);
    let said = decode_report(&first(&report, 2, &[])).unwrap_err();
    assert!(said.to_string().ends_with(needs), "{said}");
    let heartbeat = encode_heartbeat(&samples::heartbeats()[0]);
    let said = decode_heartbeat(&first(&heartbeat, 2, &[0])).unwrap_err();
    assert!(said.to_string().ends_with(needs), "{said}");
    // What stands behind the first version's body in each of those that begin with it, where it says nothing.
    for (kind, later) in [
        (3, &[(2, &[0][..])][..]),
        (4, &[(2, &[0])]),
        (5, &[(2, &[0])]),
        (6, &[(2, &[0, 0]), (3, &[0, 0, 0])]),
        (7, &[(2, &[0])]),
        (8, &[(2, &[0]), (3, &[0, 0, 0, 0, 0])]),
    ] {
        let entries = samples::facts().into_iter().map(|fact| fact_entry(&fact));
        let entry = entries
            .into_iter()
            .find(|entry| entry.kind == kind)
            .unwrap();
        for (version, more) in later {
            let body = [&entry.body, *more].concat();
            let said = read_fact(&entry.key, kind, *version, &body).unwrap_err();
            assert!(said.to_string().ends_with(needs), "kind {kind}: {said}");
        }
    }
}
