//! Streams: which subjects one may have, alone and beside the others of its account.

use super::name::MAX_NAME;
use super::refusal::{Refusal, refuse};
use super::subject::{is_subset, overlaps, valid_in_definition};

/// What of a stream's definition its creation is judged by.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stream {
    /// Its name.
    pub name: String,
    /// What it stores; none stands for the name itself.
    pub subjects: Vec<String>,
    /// Whether it stores without answering the publisher.
    pub no_ack: bool,
}

/// The server's own subjects: what a stream would answer to, and what of it was allowed once and still is.
const OWN: [(&str, &str, &str); 4] = [
    ("$JS.>", "$JS.EVENT.>", "jetstream"),
    ("$JSC.>", "$JS.EVENT.>", "jetstream"),
    ("$NRG.>", "$JS.EVENT.>", "jetstream"),
    ("$SYS.>", "$SYS.ACCOUNT.>", "system"),
];

impl Stream {
    /// Whether an account that has `others` creates this stream, in the order `server/jetstream_api.go` and
    /// `checkStreamCfg` of `server/stream.go` look at it.
    pub fn create(&self, others: &[Self]) -> Result<(), Refusal> {
        self.named()?;
        check_subjects(&self.stored(), self.no_ack)?;
        if let Some(same) = others.iter().find(|other| other.name == self.name) {
            return if same == self {
                Ok(())
            } else {
                refuse(
                    10058,
                    "stream name already in use with a different configuration",
                )
            };
        }
        if others
            .iter()
            .any(|other| !subjects_disjoint(&other.stored(), &self.stored()))
        {
            return refuse(10065, "subjects overlap with an existing stream");
        }
        Ok(())
    }

    /// The name, as the subject of the request and then the definition meet it.
    fn named(&self) -> Result<(), Refusal> {
        let name = self.name.as_str();
        if name.contains([' ', '\t', '\r', '\n']) {
            return Err(Refusal::Closed);
        }
        if name.is_empty() || name.contains('.') {
            return Err(Refusal::Unanswered);
        }
        if name.contains(['/', '\\']) {
            return refuse(10128, "Stream name can not contain path separators");
        }
        if name.contains(['*', '>', '\x0c']) {
            return refuse(
                10052,
                r"stream name is required and can not contain '.', '*', '>', '\\', '/'",
            );
        }
        if name.len() > MAX_NAME {
            return refuse(10052, "stream name is too long, maximum allowed is 255");
        }
        Ok(())
    }

    fn stored(&self) -> Vec<String> {
        if self.subjects.is_empty() {
            vec![self.name.clone()]
        } else {
            self.subjects.clone()
        }
    }
}

/// Whether one stream may have these subjects: `checkStreamCfg` of `server/stream.go`.
pub fn subjects_allowed(subjects: &[String], no_ack: bool) -> bool {
    check_subjects(subjects, no_ack).is_ok()
}

fn check_subjects(subjects: &[String], no_ack: bool) -> Result<(), Refusal> {
    let mut rest = subjects;
    while let Some((subject, later)) = rest.split_first() {
        rest = later;
        if !valid_in_definition(subject) {
            return refuse(10052, "invalid subject");
        }
        if later.contains(subject) {
            return refuse(10052, "duplicate subjects detected");
        }
        if !no_ack && subject == ">" {
            return refuse(10052, "capturing all subjects requires no-ack to be true");
        }
        if !no_ack && let Some(owner) = own(subject) {
            let why = format!("subjects that overlap with {owner} api require no-ack to be true");
            return refuse(10052, why);
        }
        if let Some(other) = later.iter().find(|other| overlaps(other, subject)) {
            return refuse(
                10052,
                format!("subject {subject:?} overlaps with {other:?}"),
            );
        }
    }
    Ok(())
}

/// Whose subjects these overlap, of the server's own.
fn own(subject: &str) -> Option<&'static str> {
    OWN.iter()
        .find(|(space, exception, _)| overlaps(subject, space) && !is_subset(subject, exception))
        .map(|(_, _, owner)| *owner)
}

/// Whether two streams of one account may have these subjects (`subjectsOverlap` of `server/jetstream.go`).
pub fn subjects_disjoint(a: &[String], b: &[String]) -> bool {
    !a.iter().any(|x| b.iter().any(|y| overlaps(x, y)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advisories_may_be_stored_and_the_api_may_not() {
        for (subject, expected) in [
            ("$JS.EVENT.ADVISORY.>", true),
            ("$SYS.ACCOUNT.A.CONNECT", true),
            ("$JS.API.>", false),
            ("$SYS.>", false),
            ("*.x", false),
            ("*", true),
            ("a.>", true),
        ] {
            let subjects = [subject.to_owned()];
            assert_eq!(subjects_allowed(&subjects, false), expected, "{subject}");
            assert!(subjects_allowed(&subjects, true), "{subject}");
        }
    }
}
