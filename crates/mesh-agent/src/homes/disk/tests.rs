//! Where a bus is is found again as it was, by the enrolment it belongs to, and is nobody else's to read.

use std::os::unix::fs::PermissionsExt;

use mesh_auth::keys::UserKey;

use super::*;

/// Fixed keys, for bytes that stay.
const BOX_SEED: &str = "SXAIIBCMX5QBK5KBBWAAXNL74YHLDOSSNAPOZR5SRXPLGD64AVDDVPDZUY";
const USER_SEED: &str = "SUAHDCP7CLPARNSYCNQJGUYZXRJWRHWEZDGLWKZPFPE7N7P6BP4MTMORIQ";
/// Version 1, as it was first written.
const WRITTEN: &str = r#"{
  "version": 1,
  "enrolment": "XBOVZHZPY6M7PXISUIRRPT36RTTWS7YLSFL2QAEFRS6EEU2DILNBGP6A",
  "bus": "amqp",
  "urls": [
    "amqps://bus.example:5671/mesh"
  ],
  "ca": "PEM",
  "domain": "hub",
  "account": "MESH",
  "credential": "SUAHDCP7CLPARNSYCNQJGUYZXRJWRHWEZDGLWKZPFPE7N7P6BP4MTMORIQ\n"
}
"#;

fn place(bus: BusKind) -> Place {
    Place {
        bus,
        at: BusPlace {
            urls: vec!["amqps://bus.example:5671/mesh".to_owned()],
            ca: Some("PEM".to_owned()),
            facts: BusFacts {
                domain: Some("hub".to_owned()),
                account: "MESH".to_owned(),
            },
        },
        credentials: Credentials::Nkey(UserKey::from_seed(USER_SEED).unwrap()),
    }
}

fn files(dir: &Path) -> PlaceFiles {
    PlaceFiles::new(dir, &BoxKey::from_seed(BOX_SEED).unwrap())
}

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap();
    let mut names: Vec<_> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn what_the_first_version_wrote_is_read_and_written_again() {
    let files = files(Path::new("/"));
    let read = decode(Path::new("f"), WRITTEN, Some(&files.enrolment)).unwrap();
    assert_eq!(read, place(BusKind::Amqp));
    assert_eq!(files.encode(&read).expose(), WRITTEN);
}

#[test]
fn an_offer_becomes_home_by_its_name_and_takes_no_room() {
    let dir = tempfile::tempdir().unwrap();
    let files = files(dir.path());
    assert_eq!(files.load().unwrap(), Kept::default());
    let there = place(BusKind::Amqp);
    files.offer(&there, files.next_turn()).unwrap();
    let kept = files.load().unwrap();
    assert_eq!((kept.home, kept.offered.as_ref()), (None, Some(&there)));
    assert_eq!(names(dir.path()), ["bus.offered.json", "ca.amqp.pem"]);
    let offered = fs::metadata(offered_path(dir.path())).unwrap();
    assert_eq!(offered.permissions().mode() & 0o777, 0o600);

    files.make_home(&there).unwrap();
    let kept = files.load().unwrap();
    assert_eq!((kept.home.as_ref(), kept.offered), (Some(&there), None));
    assert_eq!(names(dir.path()), ["bus.json", "ca.amqp.pem"]);

    // Without its file it is written; and an offer of what is home already is no offer.
    files.make_home(&place(BusKind::Nats)).unwrap();
    assert_eq!(files.load().unwrap().home, Some(place(BusKind::Nats)));
    files
        .offer(&place(BusKind::Nats), files.next_turn())
        .unwrap();
    assert_eq!(files.load().unwrap().offered, None);

    files.offer(&there, files.next_turn()).unwrap();
    files.withdraw(BusKind::Amqp).unwrap();
    assert_eq!(names(dir.path()), ["bus.json", "ca.nats.pem"]);
    forget_moves(dir.path()).unwrap();
    assert_eq!(names(dir.path()), [""; 0]);
}

#[test]
fn an_offer_whose_turn_is_over_is_not_written_over_the_next() {
    let dir = tempfile::tempdir().unwrap();
    let files = files(dir.path());
    let before = files.next_turn();
    files
        .offer(&place(BusKind::Amqp), files.next_turn())
        .unwrap();
    files.offer(&place(BusKind::Nats), before).unwrap();
    assert_eq!(files.load().unwrap().offered, Some(place(BusKind::Amqp)));
}

#[test]
fn what_is_not_understood_or_of_another_enrolment_is_set_aside() {
    for (text, said) in [
        (
            WRITTEN.replacen("\"version\": 1", "\"version\": 2", 1),
            "version 2",
        ),
        (
            WRITTEN.replacen("\"version\": 1", "\"version\": 0", 1),
            "version 0",
        ),
        (
            WRITTEN.replacen("\"bus\": \"amqp\"", "\"bus\": \"tin\"", 1),
            "no bus",
        ),
        (WRITTEN.replacen(USER_SEED, "SU", 1), "seed"),
        (
            WRITTEN.replacen("\"urls\"", "\"uris\"", 1),
            "not what this program writes, at line 5",
        ),
        (WRITTEN.split_at(WRITTEN.len() / 2).0.to_owned(), "damaged"),
        (
            WRITTEN.replacen("\"enrolment\": \"X", "\"enrolment\": \"Y", 1),
            "earlier enrolment",
        ),
    ] {
        assert_ne!(text, WRITTEN, "{said}");
        let dir = tempfile::tempdir().unwrap();
        let files = files(dir.path());
        let error = decode(&home_path(dir.path()), &text, Some(&files.enrolment)).unwrap_err();
        let error = error.to_string();
        assert!(
            error.contains(said) && error.contains("bus.json"),
            "{error}"
        );
        assert!(!error.contains(USER_SEED), "{error}");
        write_secret(&home_path(dir.path()), &SecretText::new(text)).unwrap();
        assert_eq!(files.load().unwrap(), Kept::default());
        assert_eq!(names(dir.path()), ["bus.unread"]);
    }
}

#[test]
fn a_file_others_can_read_stops_the_agent_with_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let path = home_path(dir.path());
    fs::write(&path, WRITTEN).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    let error = files(dir.path()).load().unwrap_err().to_string();
    assert!(error.contains("chmod 600"), "{error}");
}
