//! What a method requires, held against the words of a row.

use anyhow::Result;

use mesh_servers::rabbitmq::Requirement;

use super::Answer;
use super::row::{Row, text, texts};
use super::wording;

/// Whether the row lists what the method requires, in whatever order. The topic permission, asked for only of an exchange
/// of type topic, may be left out: the rows name it for a publication, and not for a binding.
pub(super) fn answer(row: &Row<'_>) -> Result<Answer> {
    let required = wording::operation(text(row.a)?)?.requires();
    let expected: Vec<String> = texts(row.expect)?
        .iter()
        .map(|words| plain(words))
        .collect();
    let said =
        |requirement: &Requirement| expected.contains(&plain(&wording::required(*requirement)));
    let complete = required
        .iter()
        .all(|requirement| requirement.is_conditional() || said(requirement));
    let listed = required
        .iter()
        .filter(|requirement| said(requirement))
        .count();
    let got: Vec<String> = required.into_iter().map(wording::required).collect();
    Ok(Answer::Verdict(
        complete && listed == expected.len(),
        format!("{got:?}"),
    ))
}

/// Words without how they are spelled: `dead-letter` is `dead letter`.
fn plain(words: &str) -> String {
    words
        .to_ascii_lowercase()
        .replace('-', " ")
        .replace('\'', "")
}
