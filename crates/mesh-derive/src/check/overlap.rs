//! Finds what meets a filter among many without asking each: a mesh of ten thousand nodes has fifty thousand entries.

use std::collections::BTreeMap;

use mesh_model::Filter;

/// Entries by the tokens of their filters: a tree, in which one step down is one token further.
///
/// What is found comes in no order that means anything.
pub(super) struct Meetings<'a, T> {
    root: Place<'a, T>,
}

/// Where the tokens up to here lead.
struct Place<'a, T> {
    /// One literal token further.
    literal: BTreeMap<Token<'a>, Self>,
    /// Behind a `*`.
    one: Option<Box<Self>>,
    /// The entries that end in `>` here.
    rest: Vec<T>,
    /// The entries that end here.
    here: Vec<T>,
}

/// A token, in an order that is told by a number nearly always: names differ at their ends, and ten thousand of them are
/// compared some fourteen times for each that is looked for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Token<'a> {
    end: u64,
    text: &'a str,
}

impl<'a> Token<'a> {
    fn of(text: &'a str) -> Self {
        let last = text.bytes().rev().take(8);
        Self {
            end: last.fold(0, |end, byte| end << 8 | u64::from(byte)),
            text,
        }
    }
}

impl<T> Default for Place<'_, T> {
    fn default() -> Self {
        Self {
            literal: BTreeMap::new(),
            one: None,
            rest: Vec::new(),
            here: Vec::new(),
        }
    }
}

impl<'a, T> Meetings<'a, T> {
    pub(super) fn new() -> Self {
        Self {
            root: Place::default(),
        }
    }

    /// Filters, each with what it stands for.
    pub(super) fn of(filters: impl IntoIterator<Item = (&'a Filter, T)>) -> Self {
        let mut meetings = Self::new();
        for (filter, of) in filters {
            meetings.insert(filter.tokens(), of);
        }
        meetings
    }

    /// Another, by the tokens of its filter.
    pub(super) fn insert(&mut self, tokens: impl IntoIterator<Item = &'a str>, of: T) {
        let mut place = &mut self.root;
        for token in tokens {
            place = match token {
                // A valid filter ends with it.
                ">" => {
                    place.rest.push(of);
                    return;
                }
                "*" => place.one.get_or_insert_default(),
                token => place.literal.entry(Token::of(token)).or_default(),
            };
        }
        place.here.push(of);
    }

    /// Every entry that some subject passes together with `filter`.
    pub(super) fn with<'m>(&'m self, filter: &'m Filter, met: &mut dyn FnMut(&'m T)) {
        self.root.walk(Some(filter.as_str()), met);
    }
}

impl<T> Place<'_, T> {
    /// Goes on here with what is left of a filter.
    fn walk<'m>(&'m self, left: Option<&'m str>, met: &mut dyn FnMut(&'m T)) {
        let Some(left) = left else {
            return self.here.iter().for_each(met);
        };
        let (token, left) = match left.split_once('.') {
            Some((token, left)) => (token, Some(left)),
            None => (left, None),
        };
        match token {
            ">" => return self.below(met),
            "*" => {
                for place in self.literal.values() {
                    place.walk(left, met);
                }
            }
            token => {
                if let Some(place) = self.literal.get(&Token::of(token)) {
                    place.walk(left, met);
                }
            }
        }
        if let Some(place) = &self.one {
            place.walk(left, met);
        }
        // What ends in `>` takes whatever is left.
        self.rest.iter().for_each(met);
    }

    /// Everything one token or more further. Subjects are a few tokens long, and so is the way down.
    fn below<'m>(&'m self, met: &mut dyn FnMut(&'m T)) {
        self.rest.iter().for_each(&mut *met);
        for place in self.literal.values().chain(self.one.as_deref()) {
            place.here.iter().for_each(&mut *met);
            place.below(met);
        }
    }
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
            entries in prop::collection::vec(filters(), 0..40),
            asked in filters(),
        ) {
            let index = Meetings::of(entries.iter().zip(0..));
            let mut found: Vec<usize> = Vec::new();
            index.with(&asked, &mut |at| found.push(*at));
            found.sort_unstable();
            let each: Vec<usize> = (0..entries.len())
                .filter(|at| entries[*at].overlaps(&asked))
                .collect();
            prop_assert_eq!(found, each);
        }
    }
}
