//! The bytes of every version, committed: today's code reads them, and writes the newest ones byte for byte.
//!
//! `tests/golden/NAME-VERSION.bin` holds the samples of one type one after another, each as its length in four bytes,
//! big-endian, and its bytes; a fact is three such parts: key, kind and version, body. A file that is there is never
//! written again. For a new version, add its samples and its file's test, and run the tests with `MESH_WRITE_GOLDEN=1`.

use std::fmt::Debug;
use std::fs;
use std::path::PathBuf;

use mesh_control::Fact;
use mesh_wire::{
    DiskEntry, Signed, WireError, decode_announcement, decode_ask, decode_declaration,
    decode_enrolment, decode_enrolment_answer, decode_heartbeat, decode_log_part, decode_mark,
    decode_report, encode_announcement, encode_ask, encode_declaration, encode_enrolment,
    encode_enrolment_answer, encode_heartbeat, encode_log_part, encode_mark, encode_report,
    fact_entry, open_signed, read_fact, seal_signed,
};

use crate::{later, samples};

const FILES: [&str; 17] = [
    "announcement-1",
    "ask-1",
    "declaration-1",
    "declaration-2",
    "declaration-3",
    "enrolment-1",
    "enrolment-answer-1",
    "fact-1",
    "fact-2",
    "fact-3",
    "heartbeat-1",
    "heartbeat-2",
    "log-part-1",
    "mark-1",
    "report-1",
    "report-2",
    "signed-1",
];

fn directory() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

/// The parts that are committed; where the file is missing and this was asked for, the ones of today, committed now.
fn committed(name: &str, today: &[Vec<u8>]) -> Vec<Vec<u8>> {
    assert!(FILES.contains(&name), "{name} is not listed");
    let path = directory().join(format!("{name}.bin"));
    if !path.exists() {
        assert!(
            std::env::var_os("MESH_WRITE_GOLDEN").is_some(),
            "{} is missing; if its version is new, run this test once with MESH_WRITE_GOLDEN=1",
            path.display()
        );
        let framed = |part: &Vec<u8>| {
            let length = u32::try_from(part.len()).unwrap();
            [&length.to_be_bytes(), &part[..]].concat()
        };
        fs::create_dir_all(directory()).unwrap();
        fs::write(&path, today.iter().flat_map(framed).collect::<Vec<u8>>()).unwrap();
    }
    parts(&fs::read(&path).unwrap())
}

fn parts(mut file: &[u8]) -> Vec<Vec<u8>> {
    let mut parts = Vec::new();
    while let Some((length, rest)) = file.split_first_chunk() {
        let length = u32::from_be_bytes(*length).try_into().unwrap();
        let (part, rest) = rest.split_at(length);
        parts.push(part.to_vec());
        file = rest;
    }
    assert!(file.is_empty(), "the file ends inside a length");
    parts
}

fn check<T: PartialEq + Debug>(
    name: &str,
    samples: Vec<T>,
    encode: impl Fn(&T) -> Vec<u8>,
    decode: impl Fn(&[u8]) -> Result<T, WireError>,
) {
    let today: Vec<Vec<u8>> = samples.iter().map(encode).collect();
    let committed = committed(name, &today);
    let read: Vec<_> = committed.iter().map(|bytes| decode(bytes)).collect();
    assert_eq!(read, samples.into_iter().map(Ok).collect::<Vec<_>>());
    assert_eq!(today, committed, "{name} is written otherwise than it was");
}

#[test]
fn declaration_1_is_read_and_written_as_ever() {
    let samples = samples::declarations();
    check(
        "declaration-1",
        samples,
        encode_declaration,
        decode_declaration,
    );
}

#[test]
fn declaration_2_is_read_and_written_as_ever() {
    let samples = samples::homes();
    check(
        "declaration-2",
        samples,
        encode_declaration,
        decode_declaration,
    );
}

#[test]
fn declaration_3_is_read_and_written_as_ever() {
    let samples = later::declarations();
    check(
        "declaration-3",
        samples,
        encode_declaration,
        decode_declaration,
    );
}

#[test]
fn report_1_is_read_and_written_as_ever() {
    check("report-1", samples::reports(), encode_report, decode_report);
}

#[test]
fn report_2_is_read_and_written_as_ever() {
    check("report-2", later::reports(), encode_report, decode_report);
}

#[test]
fn heartbeat_1_is_read_and_written_as_ever() {
    let samples = samples::heartbeats();
    check("heartbeat-1", samples, encode_heartbeat, decode_heartbeat);
}

#[test]
fn heartbeat_2_is_read_and_written_as_ever() {
    let samples = later::heartbeats();
    check("heartbeat-2", samples, encode_heartbeat, decode_heartbeat);
}

#[test]
fn enrolment_1_is_read_and_written_as_ever() {
    let samples = samples::enrolments();
    check("enrolment-1", samples, encode_enrolment, decode_enrolment);
}

#[test]
fn enrolment_answer_1_is_read_and_written_as_ever() {
    check(
        "enrolment-answer-1",
        samples::answers(),
        encode_enrolment_answer,
        decode_enrolment_answer,
    );
}

#[test]
fn mark_1_is_read_and_written_as_ever() {
    check("mark-1", samples::marks(), encode_mark, decode_mark);
}

#[test]
fn ask_1_is_read_and_written_as_ever() {
    check("ask-1", samples::asks(), encode_ask, decode_ask);
}

#[test]
fn log_part_1_is_read_and_written_as_ever() {
    let samples = samples::log_parts();
    check("log-part-1", samples, encode_log_part, decode_log_part);
}

#[test]
fn signed_1_is_read_and_written_as_ever() {
    let seal = |signed: &Signed| seal_signed(&signed.body, &signed.signature);
    check("signed-1", samples::signed(), seal, open_signed);
}

#[test]
fn announcement_1_is_read_and_written_as_ever() {
    check(
        "announcement-1",
        samples::announcements(),
        encode_announcement,
        decode_announcement,
    );
}

#[test]
fn fact_1_is_read_and_written_as_ever() {
    check_facts("fact-1", samples::facts());
}

#[test]
fn fact_2_is_read_and_written_as_ever() {
    check_facts("fact-2", samples::facts_of_both_buses());
}

#[test]
fn fact_3_is_read_and_written_as_ever() {
    check_facts("fact-3", later::facts());
}

fn check_facts(name: &str, samples: Vec<Fact>) {
    let today: Vec<Vec<u8>> = samples
        .iter()
        .map(fact_entry)
        .flat_map(
            |DiskEntry {
                 key,
                 kind,
                 version,
                 body,
             }| [key, vec![kind, version], body],
        )
        .collect();
    let committed = committed(name, &today);
    let read: Vec<_> = committed
        .chunks(3)
        .map(|parts| read_fact(&parts[0], parts[1][0], parts[1][1], &parts[2]))
        .collect();
    assert_eq!(read, samples.into_iter().map(Ok).collect::<Vec<_>>());
    assert_eq!(
        today, committed,
        "facts are written otherwise than they were"
    );
}

#[test]
fn every_committed_file_is_read_by_a_test() {
    for entry in fs::read_dir(directory()).unwrap() {
        let file = entry.unwrap().file_name().into_string().unwrap();
        let read = file
            .strip_suffix(".bin")
            .is_some_and(|name| FILES.contains(&name));
        assert!(read, "{file} is read by no test");
    }
}
