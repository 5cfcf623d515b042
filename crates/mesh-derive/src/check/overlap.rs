//! Finds what meets a filter among many without asking each: a mesh of ten thousand nodes has fifty thousand entries.

use std::collections::BTreeMap;
use std::ops::Bound;

use mesh_model::Filter;

/// Filters, each with what it stands for, by the literal tokens they begin with.
pub(super) struct Meetings<'a, T> {
    by_head: BTreeMap<&'a str, Vec<(&'a Filter, T)>>,
}

impl<'a, T> Meetings<'a, T> {
    pub(super) fn new(entries: impl IntoIterator<Item = (&'a Filter, T)>) -> Self {
        let mut by_head: BTreeMap<&str, Vec<(&Filter, T)>> = BTreeMap::new();
        for (filter, of) in entries {
            by_head.entry(head(filter)).or_default().push((filter, of));
        }
        Self { by_head }
    }

    /// Every entry that some subject passes together with `filter`.
    pub(super) fn with(
        &self,
        filter: &Filter,
    ) -> impl Iterator<Item = (&'a Filter, &T)> + use<'_, 'a, T> {
        let head = head(filter);
        let above = head
            .match_indices('.')
            .filter_map(|(dot, _)| head.get(..dot))
            .chain((!head.is_empty()).then_some(""))
            .chain([head])
            .filter_map(|head| self.by_head.get(head));
        // Whatever begins with the head and a dot, or with anything.
        let first = if head.is_empty() {
            "\0".to_owned()
        } else {
            format!("{head}.")
        };
        let below = self
            .by_head
            .range::<str, _>((Bound::Included(first.as_str()), Bound::Unbounded))
            .take_while(|(begins, _)| head.is_empty() || begins.starts_with(&first))
            .map(|(_, entries)| entries);
        let met: Vec<(&'a Filter, &T)> = above
            .chain(below)
            .flatten()
            .filter(|(met, _)| met.overlaps(filter))
            .map(|(met, of)| (*met, of))
            .collect();
        met.into_iter()
    }
}

/// What a filter begins with before its first wildcard, without the dot between.
fn head(filter: &Filter) -> &str {
    let text = filter.as_str();
    let literal = filter
        .tokens()
        .take_while(|token| !matches!(*token, "*" | ">"))
        .map(|token| token.len() + 1)
        .sum::<usize>();
    text.get(..literal.saturating_sub(1)).unwrap_or(text)
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
