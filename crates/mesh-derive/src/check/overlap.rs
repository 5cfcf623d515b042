//! Finds what meets a filter among many without asking each: a mesh of ten thousand nodes has fifty thousand entries.

use std::collections::BTreeMap;

use mesh_model::Filter;

/// Filters, each with what it stands for, by the literal tokens they begin with.
pub(super) struct Meetings<'a, T> {
    by_head: BTreeMap<String, Vec<(&'a Filter, T)>>,
}

impl<'a, T> Meetings<'a, T> {
    pub(super) fn new(entries: impl IntoIterator<Item = (&'a Filter, T)>) -> Self {
        let mut by_head: BTreeMap<String, Vec<(&'a Filter, T)>> = BTreeMap::new();
        for (filter, of) in entries {
            by_head.entry(head(filter)).or_default().push((filter, of));
        }
        Self { by_head }
    }

    /// Every entry that some subject passes together with `filter`.
    pub(super) fn with<'s>(
        &'s self,
        filter: &'s Filter,
    ) -> impl Iterator<Item = (&'a Filter, &'s T)> {
        let head = head(filter);
        let mut above = vec![String::new()];
        let mut so_far = String::new();
        for token in head.split('.').filter(|token| !token.is_empty()) {
            if !so_far.is_empty() {
                so_far.push('.');
            }
            so_far.push_str(token);
            above.push(so_far.clone());
        }
        // Whatever begins with the head and a dot; '/' is the byte after '.'.
        let below = if head.is_empty() {
            self.by_head.range("\0".to_owned()..)
        } else {
            self.by_head.range(format!("{head}.")..format!("{head}/"))
        };
        above
            .into_iter()
            .filter_map(|head| self.by_head.get(&head))
            .chain(below.map(|(_, entries)| entries))
            .flatten()
            .filter(|(met, _)| met.overlaps(filter))
            .map(|(met, of)| (*met, of))
    }
}

fn head(filter: &Filter) -> String {
    let literal: Vec<&str> = filter
        .tokens()
        .take_while(|token| !matches!(*token, "*" | ">"))
        .collect();
    literal.join(".")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn filters() -> impl Strategy<Value = Filter> {
        let token = prop_oneof![Just("a"), Just("b"), Just("a-b"), Just("*"), Just("ab")];
        (prop::collection::vec(token, 0..4), any::<bool>()).prop_map(|(mut tokens, tail)| {
            if tail || tokens.is_empty() {
                tokens.push(">");
            }
            Filter::new(tokens.join(".")).unwrap()
        })
    }

    proptest! {
        #[test]
        fn what_is_found_is_what_asking_each_would_find(
            entries in prop::collection::vec(filters(), 0..20),
            asked in filters(),
        ) {
            let index = Meetings::new(entries.iter().zip(0..));
            let mut found: Vec<usize> = index.with(&asked).map(|(_, at)| *at).collect();
            found.sort_unstable();
            let each: Vec<usize> = (0..entries.len())
                .filter(|at| entries[*at].overlaps(&asked))
                .collect();
            prop_assert_eq!(found, each);
        }
    }
}
