//! Subjects as nats-server reads them: which are valid, what matches, what is a subset, what overlaps.
//!
//! The four questions have four different readings of a token that only *begins* with a wildcard (`*x`, `>x`): it is a
//! literal to [`matches`], any token to [`is_subset`] when it stands in the wider subject, and any token to [`overlaps`]
//! when the other side has a wildcard too. That is no mistake of ours: `wq.*x.*` collides with `wq.y.b` on a server.

/// What ends a token on the wire, or would end the line (`isValidSubject`).
const BLANKS: [char; 5] = [' ', '\t', '\n', '\x0c', '\r'];

/// Whether a subject may be subscribed or filtered by: `IsValidSubject` of `server/sublist.go`, with the check of runes
/// (no NUL, no replacement character) that subscriptions are held to.
pub fn valid_filter(text: &str) -> bool {
    !text.contains(['\0', char::REPLACEMENT_CHARACTER]) && valid_in_definition(text)
}

/// Whether a subject may stand in a stream's or a consumer's definition: `IsValidSubject` without the check of runes.
pub(super) fn valid_in_definition(text: &str) -> bool {
    if text.contains(BLANKS) {
        return false;
    }
    let mut tail = false;
    for token in text.split('.') {
        if token.is_empty() || tail {
            return false;
        }
        tail = token == ">";
    }
    true
}

/// Whether a subject is whole and has no wildcard: `IsValidLiteralSubject` of `server/sublist.go`. Blanks are not looked
/// at there: the protocol's parser has already split on them.
pub fn valid_literal(text: &str) -> bool {
    text.split('.')
        .all(|token| !token.is_empty() && !is_wildcard(token))
}

/// Whether no token is a wildcard, valid or not: `subjectIsLiteral` of `server/sublist.go`.
pub fn is_literal(text: &str) -> bool {
    !text.split('.').any(is_wildcard)
}

/// Whether a token is a wildcard: `subjectHasWildcard` of `server/sublist.go`.
pub fn has_wildcard(text: &str) -> bool {
    !is_literal(text)
}

/// Whether a client would let this be a reply subject: a valid subject without blanks (nats.go `validateSubject`).
pub fn valid_reply(text: &str) -> bool {
    valid_filter(text)
}

/// Whether a message on `subject` reaches a subscription to `filter`: `Sublist.Match`. The published text is taken token
/// by token as it is, a `*` or `>` in it included; one with an empty token reaches nobody, and neither does anything
/// reach a filter that could not be inserted.
pub fn matches(filter: &str, subject: &str) -> bool {
    inserted(filter) && matches_inserted(filter, subject)
}

/// Whether `Sublist.Insert` takes this filter; it looks at the tokens alone.
fn inserted(filter: &str) -> bool {
    let mut tail = false;
    filter.split('.').all(|token| {
        let fits = !token.is_empty() && !tail;
        tail = token == ">";
        fits
    })
}

fn matches_inserted(filter: &str, subject: &str) -> bool {
    if subject.split('.').any(str::is_empty) {
        return false;
    }
    let (mut wanted, mut tokens) = (filter.split('.'), subject.split('.'));
    loop {
        match (wanted.next(), tokens.next()) {
            (None, None) | (Some(">"), Some(_)) => return true,
            (Some("*"), Some(_)) => {}
            (Some(x), Some(y)) if x == y => {}
            _ => return false,
        }
    }
}

/// Whether everything `narrow` stands for is within `wide`: `subjectIsSubsetMatch`, both possibly with wildcards.
pub fn is_subset(narrow: &str, wide: &str) -> bool {
    let mut tokens = narrow.split('.');
    for wanted in wide.split('.') {
        let Some(token) = tokens.next() else {
            return false;
        };
        match (token, wanted) {
            (_, ">") => return true,
            (_, "") | ("" | ">", _) => return false,
            ("*", wanted) => {
                if wanted != "*" {
                    return false;
                }
            }
            (token, wanted) => {
                if !wanted.starts_with('*') && token != wanted {
                    return false;
                }
            }
        }
    }
    tokens.next().is_none()
}

/// Whether the server holds that one message could be on both: `SubjectsCollide`, by which streams and the consumers of
/// a work queue are kept apart.
pub fn overlaps(a: &str, b: &str) -> bool {
    if a == b {
        return true;
    }
    match (is_literal(a), is_literal(b)) {
        (true, true) => false,
        (true, false) => is_subset(a, b),
        (false, true) => is_subset(b, a),
        (false, false) => both_with_wildcards(a, b),
    }
}

fn both_with_wildcards(a: &str, b: &str) -> bool {
    let open = |text: &str| text.split('.').any(|token| token == ">");
    let (long_a, long_b) = (a.split('.').count(), b.split('.').count());
    let lengths_fit = match long_a.cmp(&long_b) {
        std::cmp::Ordering::Less => open(a),
        std::cmp::Ordering::Equal => true,
        std::cmp::Ordering::Greater => open(b),
    };
    lengths_fit
        && a.split('.')
            .zip(b.split('.'))
            .all(|(x, y)| can_be_equal(x, y))
}

/// `tokensCanMatch`: it looks at the first byte, so a literal `*x` counts as a wildcard here.
fn can_be_equal(x: &str, y: &str) -> bool {
    if x.is_empty() || y.is_empty() {
        return false;
    }
    x.starts_with(['*', '>']) || y.starts_with(['*', '>']) || x == y
}

fn is_wildcard(token: &str) -> bool {
    token == "*" || token == ">"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_that_begins_with_a_star_is_read_in_four_ways() {
        assert!(!matches("wq.*x.b", "wq.y.b"));
        assert!(matches("wq.*x.b", "wq.*x.b"));
        assert!(is_subset("wq.y.b", "wq.*x.b"));
        assert!(overlaps("wq.*x.*", "wq.y.b"));
        assert!(!overlaps("wq.*x.b", "wq.y.b"));
    }

    #[test]
    fn an_empty_token_reaches_nobody() {
        for subject in ["", ".", "a.", ".a", "a..b"] {
            assert!(!matches(">", subject), "{subject:?}");
            assert!(!valid_filter(subject), "{subject:?}");
            assert!(!valid_literal(subject), "{subject:?}");
        }
    }

    #[test]
    fn a_filter_that_cannot_be_inserted_matches_nothing() {
        assert!(!matches("a.>.b", "a.>.b"));
        assert!(!matches("a..b", "a..b"));
    }
}
