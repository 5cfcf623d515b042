//! Laws of every type: it reads back as itself, in one way only, whole or not at all, and nothing makes reading panic.

use std::fmt::Debug;

use mesh_wire::{
    DiskEntry, Signed, WireError, decode_announcement, decode_ask, decode_declaration,
    decode_enrolment, decode_enrolment_answer, decode_heartbeat, decode_log_part, decode_mark,
    decode_report, encode_announcement, encode_ask, encode_declaration, encode_enrolment,
    encode_enrolment_answer, encode_heartbeat, encode_log_part, encode_mark, encode_report,
    fact_entry, open_signed, read_fact, seal_signed,
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

use crate::{any, kept};

/// A byte to change, and what to change it by.
type Damage = (Index, u8);

fn damage() -> impl Strategy<Value = Damage> {
    (any::<Index>(), 1_u8..)
}

fn damaged(bytes: &[u8], (at, by): Damage) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let at = at.index(bytes.len());
    bytes[at] ^= by;
    bytes
}

fn holds<T: PartialEq + Debug>(
    value: &T,
    encode: impl Fn(&T) -> Vec<u8>,
    decode: impl Fn(&[u8]) -> Result<T, WireError>,
    damage: Damage,
) -> Result<(), TestCaseError> {
    let bytes = encode(value);
    let read = decode(&bytes);
    prop_assert_eq!(read.as_ref(), Ok(value));
    for length in 0..bytes.len() {
        prop_assert!(decode(&bytes[..length]).is_err(), "cut to {} bytes", length);
    }
    let longer = [&bytes[..], &[0]].concat();
    let refused = matches!(decode(&longer), Err(WireError::Trailing { extra: 1, .. }));
    prop_assert!(refused, "a byte more");
    let other = damaged(&bytes, damage);
    if let Ok(read) = decode(&other) {
        prop_assert_eq!(encode(&read), other, "two ways to write one value");
    }
    Ok(())
}

fn one_way<T>(
    bytes: &[u8],
    encode: impl Fn(&T) -> Vec<u8>,
    decode: impl Fn(&[u8]) -> Result<T, WireError>,
) -> Result<(), TestCaseError> {
    if let Ok(read) = decode(bytes) {
        prop_assert_eq!(encode(&read), bytes);
    }
    Ok(())
}

fn read(entry: &DiskEntry) -> Result<mesh_control::Fact, WireError> {
    read_fact(&entry.key, entry.kind, entry.version, &entry.body)
}

fn seal(signed: &Signed) -> Vec<u8> {
    seal_signed(&signed.body, &signed.signature)
}

proptest! {
    #[test]
    fn a_declaration_reads_back_whole_and_in_one_way_only(value in any::declaration(), damage in damage()) {
        holds(&value, encode_declaration, decode_declaration, damage)?;
    }

    #[test]
    fn a_report_reads_back_whole_and_in_one_way_only(value in any::report(), damage in damage()) {
        holds(&value, encode_report, decode_report, damage)?;
    }

    #[test]
    fn a_heartbeat_reads_back_whole_and_in_one_way_only(value in any::heartbeat(), damage in damage()) {
        holds(&value, encode_heartbeat, decode_heartbeat, damage)?;
    }

    #[test]
    fn an_enrolment_reads_back_whole_and_in_one_way_only(value in any::enrolment(), damage in damage()) {
        holds(&value, encode_enrolment, decode_enrolment, damage)?;
    }

    #[test]
    fn an_enrolment_answer_reads_back_whole_and_in_one_way_only(value in any::answer(), damage in damage()) {
        holds(&value, encode_enrolment_answer, decode_enrolment_answer, damage)?;
    }

    #[test]
    fn a_mark_reads_back_whole_and_in_one_way_only(value in any::mark(), damage in damage()) {
        holds(&value, encode_mark, decode_mark, damage)?;
    }

    #[test]
    fn an_ask_reads_back_whole_and_in_one_way_only(value in any::ask(), damage in damage()) {
        holds(&value, encode_ask, decode_ask, damage)?;
    }

    #[test]
    fn a_part_of_a_log_reads_back_whole_and_in_one_way_only(value in any::log_part(), damage in damage()) {
        holds(&value, encode_log_part, decode_log_part, damage)?;
    }

    #[test]
    fn a_signed_message_reads_back_whole_and_in_one_way_only(body in vec(any::<u8>(), 0..300), half: [u8; 32], damage in damage()) {
        let mut signature = [7; 64];
        signature[..32].copy_from_slice(&half);
        holds(&Signed { body, signature }, seal, open_signed, damage)?;
    }

    #[test]
    fn an_announcement_reads_back_whole_or_not_at_all(value in any::announcement()) {
        let body = encode_announcement(&value);
        for length in 0..body.len() {
            prop_assert!(decode_announcement(&body[..length]).is_err(), "cut to {} bytes", length);
        }
        prop_assert_eq!(decode_announcement(&body), Ok(value));
    }

    #[test]
    fn a_fact_reads_back_whole_and_in_one_way_only(fact in kept::fact(), damage in damage()) {
        let entry = fact_entry(&fact);
        let body = |bytes: &[u8]| read_fact(&entry.key, entry.kind, entry.version, bytes);
        holds(&fact, |fact| fact_entry(fact).body, body, damage)?;
    }

    #[test]
    fn a_fact_is_read_only_as_what_it_is_kept_as(fact in kept::fact(), (at, by) in damage()) {
        let entry = fact_entry(&fact);
        let key = damaged(&entry.key, (at, by));
        let of_another = DiskEntry { key, ..entry.clone() };
        let of_another_kind = DiskEntry { kind: entry.kind ^ by, ..entry.clone() };
        let of_another_version = DiskEntry { version: entry.version ^ by, ..entry };
        for entry in [of_another, of_another_kind, of_another_version] {
            prop_assert!(read(&entry).is_err(), "{:?}", entry);
        }
    }

    #[test]
    fn any_bytes_are_read_in_one_way_or_refused(bytes in vec(any::<u8>(), 0..200)) {
        one_way(&bytes, encode_declaration, decode_declaration)?;
        one_way(&bytes, encode_report, decode_report)?;
        one_way(&bytes, encode_heartbeat, decode_heartbeat)?;
        one_way(&bytes, encode_enrolment, decode_enrolment)?;
        one_way(&bytes, encode_enrolment_answer, decode_enrolment_answer)?;
        one_way(&bytes, encode_mark, decode_mark)?;
        one_way(&bytes, encode_ask, decode_ask)?;
        one_way(&bytes, encode_log_part, decode_log_part)?;
        one_way(&bytes, seal, open_signed)?;
        drop(decode_announcement(&bytes));
    }

    #[test]
    fn any_record_is_read_in_one_way_or_refused(
        key in vec(any::<u8>(), 0..20),
        kind in 0_u8..14,
        version in 0_u8..5,
        body in vec(0_u8..4, 0..60),
    ) {
        let entry = DiskEntry { key, kind, version, body };
        if let Ok(fact) = read(&entry) {
            prop_assert_eq!(fact_entry(&fact), entry);
        }
    }
}
