//! Finds what meets a filter among many without asking each: a mesh of ten thousand nodes has fifty thousand entries.

use mesh_model::Filter;

/// Entries by the tokens of their filters: a tree, in which one step down is one look into a table.
///
/// What is found comes in no order that means anything.
pub(super) struct Meetings<'a, T> {
    places: Vec<Place<'a>>,
    entries: Vec<Entry<T>>,
    /// Open addressing over `places`, by parent and token; a power of two long, at most half full.
    table: Vec<u32>,
    /// The way to the last that was entered: what comes in order shares most of it.
    last: Vec<(&'a str, u32)>,
}

/// Where the tokens up to here lead.
struct Place<'a> {
    parent: u32,
    token: &'a str,
    /// The places one token further, linked; those of the two wildcards besides by themselves.
    child: u32,
    sibling: u32,
    one: u32,
    rest: u32,
    /// The entries that end here, linked.
    entry: u32,
}

struct Entry<T> {
    of: T,
    next: u32,
}

const NONE: u32 = u32::MAX;
const ROOT: u32 = 0;

impl<'a, T> Meetings<'a, T> {
    pub(super) fn new() -> Self {
        let root = Place {
            parent: NONE,
            token: "",
            child: NONE,
            sibling: NONE,
            one: NONE,
            rest: NONE,
            entry: NONE,
        };
        Self {
            places: vec![root],
            entries: Vec::new(),
            table: vec![NONE; 16],
            last: Vec::new(),
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

    /// Another, by the tokens of its filter; whether it is the first with these.
    pub(super) fn insert(&mut self, tokens: impl IntoIterator<Item = &'a str>, of: T) -> bool {
        let mut place = ROOT;
        let mut shared = true;
        for (depth, token) in tokens.into_iter().enumerate() {
            let known = self
                .last
                .get(depth)
                .filter(|(last, _)| shared && *last == token);
            if let Some((_, known)) = known {
                place = *known;
                continue;
            }
            if shared {
                self.last.truncate(depth);
                shared = false;
            }
            place = self.step(place, token);
            self.last.push((token, place));
        }
        let id = index(self.entries.len());
        let Some(place) = self.places.get_mut(at(place)) else {
            return false;
        };
        let next = std::mem::replace(&mut place.entry, id);
        self.entries.push(Entry { of, next });
        next == NONE
    }

    /// Every entry that some subject passes together with `filter`.
    pub(super) fn with<'m>(&'m self, filter: &Filter, met: &mut dyn FnMut(&'m T)) {
        self.walk(ROOT, Some(filter.as_str()), met);
    }

    /// Whether an entry has exactly these literal tokens.
    pub(super) fn has<'t>(&self, tokens: impl IntoIterator<Item = &'t str>) -> bool {
        let place = tokens
            .into_iter()
            .try_fold(ROOT, |place, token| self.find(place, token));
        let place = place.and_then(|place| self.places.get(at(place)));
        place.is_some_and(|place| place.entry != NONE)
    }

    /// Goes on at `place` with what is left of a filter.
    fn walk<'m>(&'m self, place: u32, left: Option<&str>, met: &mut dyn FnMut(&'m T)) {
        let Some(here) = self.places.get(at(place)) else {
            return;
        };
        let Some(left) = left else {
            return self.tell(here, met);
        };
        let (token, left) = match left.split_once('.') {
            Some((token, left)) => (token, Some(left)),
            None => (left, None),
        };
        match token {
            ">" => self.below(here, met),
            "*" => {
                for child in self.children(here).chain([here.one]) {
                    self.walk(child, left, met);
                }
                self.walk_rest(here, met);
            }
            token => {
                if let Some(child) = self.find(place, token) {
                    self.walk(child, left, met);
                }
                self.walk(here.one, left, met);
                self.walk_rest(here, met);
            }
        }
    }

    /// What ends in `>` here takes whatever is left.
    fn walk_rest<'m>(&'m self, here: &Place<'a>, met: &mut dyn FnMut(&'m T)) {
        if let Some(rest) = self.places.get(at(here.rest)) {
            self.tell(rest, met);
        }
    }

    fn tell<'m>(&'m self, here: &Place<'a>, met: &mut dyn FnMut(&'m T)) {
        let mut next = here.entry;
        while let Some(entry) = self.entries.get(at(next)) {
            met(&entry.of);
            next = entry.next;
        }
    }

    /// Everything one token or more further. Subjects are a few tokens long, and so is the way down.
    fn below<'m>(&'m self, here: &Place<'a>, met: &mut dyn FnMut(&'m T)) {
        let wild = [here.one, here.rest];
        let wild = wild.into_iter().filter(|place| *place != NONE);
        for child in self.children(here).chain(wild) {
            if let Some(child) = self.places.get(at(child)) {
                self.tell(child, met);
                self.below(child, met);
            }
        }
    }

    /// The places one literal token further.
    fn children(&self, here: &Place<'a>) -> impl Iterator<Item = u32> + use<'_, 'a, T> {
        let first = Some(here.child).filter(|child| *child != NONE);
        std::iter::successors(first, |child| {
            let sibling = self.places.get(at(*child))?.sibling;
            (sibling != NONE).then_some(sibling)
        })
    }

    fn find(&self, parent: u32, token: &str) -> Option<u32> {
        let mask = self.table.len() - 1;
        let mut slot = hash(parent, token) & mask;
        loop {
            let place = *self.table.get(slot).filter(|place| **place != NONE)?;
            let found = self.places.get(at(place))?;
            if found.parent == parent && found.token == token {
                return Some(place);
            }
            slot = (slot + 1) & mask;
        }
    }

    /// The place one token further, made where there is none.
    fn step(&mut self, parent: u32, token: &'a str) -> u32 {
        let there = match (token, self.places.get(at(parent))) {
            ("*", Some(here)) => Some(here.one).filter(|place| *place != NONE),
            (">", Some(here)) => Some(here.rest).filter(|place| *place != NONE),
            _ => self.find(parent, token),
        };
        there.unwrap_or_else(|| self.make(parent, token))
    }

    fn make(&mut self, parent: u32, token: &'a str) -> u32 {
        let id = index(self.places.len());
        let mut sibling = NONE;
        if let Some(here) = self.places.get_mut(at(parent)) {
            match token {
                "*" => here.one = id,
                ">" => here.rest = id,
                _ => sibling = std::mem::replace(&mut here.child, id),
            }
        }
        self.places.push(Place {
            parent,
            token,
            child: NONE,
            sibling,
            one: NONE,
            rest: NONE,
            entry: NONE,
        });
        if !matches!(token, "*" | ">") {
            if self.places.len() * 2 > self.table.len() {
                self.grow();
            } else {
                self.enter(id, parent, token);
            }
        }
        id
    }

    fn grow(&mut self) {
        self.table = vec![NONE; self.table.len() * 4];
        for id in 1..self.places.len() {
            if let Some(place) = self.places.get(id)
                && !matches!(place.token, "*" | ">")
            {
                let (parent, token) = (place.parent, place.token);
                self.enter(index(id), parent, token);
            }
        }
    }

    fn enter(&mut self, id: u32, parent: u32, token: &str) {
        let mask = self.table.len() - 1;
        let mut slot = hash(parent, token) & mask;
        while let Some(taken) = self.table.get_mut(slot) {
            if *taken == NONE {
                *taken = id;
                return;
            }
            slot = (slot + 1) & mask;
        }
    }
}

/// FNV-1a, and a last step that brings the high bits down.
fn hash(parent: u32, token: &str) -> usize {
    let start = 0xcbf2_9ce4_8422_2325_u64 ^ u64::from(parent).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let hash = token.bytes().fold(start, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    usize::try_from((hash ^ (hash >> 32)) & u64::from(u32::MAX)).unwrap_or_default()
}

fn index(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(NONE)
}

fn at(index: u32) -> usize {
    usize::try_from(index).unwrap_or(usize::MAX)
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
