//! Topic exchanges: which binding keys there may be, and which routing keys they match.

/// How often `#` may be a word of a binding key (`rabbit_exchange_type_topic`, `MAX_HASH_WILDCARDS`). Brokers before that
/// rule take any number; a key that keeps it is taken by all.
pub const MAX_HASHES: usize = 2;

/// How long a key may be, in bytes: AMQP 0-9-1 carries it as a short string.
pub const MAX_KEY: usize = 255;

/// Whether a queue or an exchange may be bound to a topic exchange with this key: `validate_binding/2` of
/// `rabbit_exchange_type_topic`. `#` counts only where it is a whole word.
pub fn binding_key_valid(key: &str) -> bool {
    key.len() <= MAX_KEY && words(key).filter(|word| *word == "#").count() <= MAX_HASHES
}

/// Whether a message with `routing_key` goes where `binding_key` is bound: `rabbit_db_topic_exchange:match/3`.
///
/// Words stand between dots and may be empty; no text at all is no word (`split_topic_key_binary`). `*` is one word, `#`
/// any number of them. Unlike the broker's walk over its trie, this is linear in the binding key for each word.
pub fn binding_matches(binding_key: &str, routing_key: &str) -> bool {
    let pattern: Vec<&str> = words(binding_key).collect();
    let mut reached = vec![false; pattern.len() + 1];
    if let Some(start) = reached.first_mut() {
        *start = true;
    }
    skip_hashes(&pattern, &mut reached);
    for word in words(routing_key) {
        reached = step(&pattern, &reached, word);
        skip_hashes(&pattern, &mut reached);
    }
    reached.last().copied().unwrap_or_default()
}

/// Where one can be in the pattern after one more word. Place `n` is before the pattern's word `n`.
fn step(pattern: &[&str], reached: &[bool], word: &str) -> Vec<bool> {
    let mut next = vec![false];
    next.extend(
        pattern
            .iter()
            .zip(reached)
            .map(|(wanted, here)| *here && (*wanted == "*" || *wanted == word) && *wanted != "#"),
    );
    for ((stays, wanted), here) in next.iter_mut().zip(pattern).zip(reached) {
        *stays |= *here && *wanted == "#";
    }
    next
}

/// `#` may be no word at all.
fn skip_hashes(pattern: &[&str], reached: &mut [bool]) {
    let mut before = false;
    for (at, here) in reached.iter_mut().enumerate() {
        let hash = at.checked_sub(1).and_then(|at| pattern.get(at)) == Some(&"#");
        *here |= before && hash;
        before = *here;
    }
}

fn words(key: &str) -> impl Iterator<Item = &str> {
    key.split('.').filter(move |_| !key.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_has_no_word_and_a_dot_has_two_empty_ones() {
        assert!(binding_matches("", "") && binding_matches("#", "") && !binding_matches("*", ""));
        assert!(binding_matches("*.*", ".") && !binding_matches("*", "."));
        assert!(binding_matches("a.*", "a.") && binding_matches("#", "a..b"));
    }

    #[test]
    fn a_hash_counts_only_as_a_whole_word() {
        for (key, expected) in [
            ("", true),
            ("#.#", true),
            ("##.##.##", true),
            ("a#b", true),
            ("#.#.#", false),
            ("#.*.#.*.#", false),
        ] {
            assert_eq!(binding_key_valid(key), expected, "{key}");
        }
        assert!(binding_key_valid(&"x".repeat(255)) && !binding_key_valid(&"x".repeat(256)));
    }

    #[test]
    fn a_published_wildcard_is_an_ordinary_word() {
        assert!(!binding_matches("a.b", "a.#") && binding_matches("a.*", "a.#"));
    }
}
