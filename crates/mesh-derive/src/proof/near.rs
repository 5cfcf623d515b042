//! What is next to an entry of a grant: a token more, a token less, a letter more, a wildcard in the place of a token.

use mesh_model::{Filter, QueueGroup, Subject};

use crate::proof::Act;
use crate::proof::allowed::WORD;

/// Subjects that are almost this one: with another word in the place of each token, so that none can be a wildcard
/// unnoticed; a token more, a token less; a letter more or less in the last.
pub(super) fn subjects(subject: &Subject) -> Vec<Subject> {
    let tokens: Vec<&str> = subject.tokens().collect();
    let Some((last, before)) = tokens.split_last() else {
        return Vec::new();
    };
    let before = before.join(".");
    let mut shorter = last.chars();
    shorter.next_back();
    let mut later = last.chars();
    later.next();
    let others = (0..tokens.len()).map(|place| {
        let with = |(at, token)| if at == place { WORD } else { token };
        let tokens: Vec<&str> = tokens.iter().copied().enumerate().map(with).collect();
        tokens.join(".")
    });
    [
        format!("{subject}.{WORD}"),
        before.clone(),
        format!("{before}.{last}0"),
        format!("{before}.0{last}"),
        format!("{before}.{}", shorter.as_str()),
        format!("{before}.{}", later.as_str()),
    ]
    .into_iter()
    .chain(others)
    // Of a text too short there is none that is shorter.
    .filter_map(|text| Subject::new(text).ok())
    .collect()
}

/// Subscriptions that are wider than an entry: the same with a wildcard for each token, with all that is below each, and
/// below itself; in no group, in the entry's, and in another.
pub(super) fn subscriptions(filter: &Filter, queue: Option<&QueueGroup>) -> Vec<Act> {
    let tokens: Vec<&str> = filter.tokens().collect();
    let mut wider = vec![
        filter.to_string(),
        format!("{filter}.*"),
        format!("{filter}.>"),
    ];
    for at in 0..tokens.len() {
        let (before, after) = (tokens.iter().take(at), tokens.iter().skip(at + 1));
        let with = |token| {
            let rest = after.clone();
            before
                .clone()
                .chain([&token])
                .chain(rest)
                .copied()
                .collect::<Vec<_>>()
        };
        wider.push(with("*").join("."));
        let all_below: Vec<&str> = before.clone().copied().chain([">"]).collect();
        wider.push(all_below.join("."));
    }
    let filters = wider.into_iter().filter_map(|text| Filter::new(text).ok());
    filters
        .flat_map(|filter| in_groups(&filter, queue))
        .collect()
}

/// A subscription alone, in a group, and in a group nobody has.
pub(super) fn in_groups(filter: &Filter, queue: Option<&QueueGroup>) -> Vec<Act> {
    let nobodys = QueueGroup::new(WORD).ok();
    let groups = [Some(None), nobodys.map(Some), queue.cloned().map(Some)];
    groups
        .into_iter()
        .flatten()
        .map(|queue| Act::Subscribe {
            filter: filter.clone(),
            queue,
        })
        .collect()
}
