//! Subject transforms: whether a pair of subjects is one, and what it makes of a subject (`server/subject_transform.go`).

use super::subject::{is_subset, valid_literal};

/// A pair of subjects that is no transform.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TransformError {
    /// Not valid as source or destination, or only one of them ends in `>`, or the destination has a `*`.
    #[error("transform from {from:?} to {to:?} has an invalid source or destination")]
    Subject {
        /// The source.
        from: String,
        /// The destination.
        to: String,
    },
    /// A token of the destination that is no function, or has the wrong arguments, or points at no wildcard.
    #[error("transform destination has an invalid token {0:?}")]
    Token(String),
}

/// A transform of subjects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transform {
    source: Vec<String>,
    to: Option<Vec<Token>>,
}

/// One token of a destination. Wildcards of the source are counted from 1, positions in a token in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Text(String),
    Tail,
    Wildcard(usize),
    Partition(u32, Vec<usize>),
    Random,
    Cut(Cut, usize, usize),
    Split(usize, String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cut {
    SplitFromLeft,
    SplitFromRight,
    SliceFromLeft,
    SliceFromRight,
    Left,
    Right,
}

const CUTS: [(&str, Cut); 6] = [
    ("SplitFromLeft", Cut::SplitFromLeft),
    ("SplitFromRight", Cut::SplitFromRight),
    ("SliceFromLeft", Cut::SliceFromLeft),
    ("SliceFromRight", Cut::SliceFromRight),
    ("Right", Cut::Right),
    ("Left", Cut::Left),
];

impl Transform {
    /// The transform from one subject to another: nothing as the source is everything, nothing as the destination leaves
    /// subjects as they are. It need not use every wildcard of the source (`NewSubjectTransform`, not strict).
    pub fn new(from: &str, to: &str) -> Result<Self, TransformError> {
        let source = if from.is_empty() { ">" } else { from };
        let owned = |text: &str| text.split('.').map(ToOwned::to_owned).collect();
        let unchanged = to.is_empty() || (source == ">" && to == ">");
        let transform = |to| Self {
            source: owned(source),
            to,
        };
        if to.is_empty() {
            return Ok(transform(None));
        }
        let whole = |text: &str| {
            let (head, last) = text.rsplit_once('.').unwrap_or(("x", text));
            !last.is_empty()
                && head
                    .split('.')
                    .all(|token| !token.is_empty() && token != ">")
        };
        let open = |text: &str| text.split('.').next_back() == Some(">");
        if !whole(source)
            || !whole(to)
            || open(source) != open(to)
            || to.split('.').any(|token| token == "*")
        {
            return Err(TransformError::Subject {
                from: from.to_owned(),
                to: to.to_owned(),
            });
        }
        let stars = source.split('.').filter(|token| *token == "*").count();
        let tokens: Result<_, _> = to.split('.').map(|token| parse(token, stars)).collect();
        let tokens = tokens?;
        Ok(transform((!unchanged).then_some(tokens)))
    }

    /// What becomes of a subject; nothing where it is not of the source, or is no literal, or the transform is random.
    pub fn apply(&self, subject: &str) -> Option<String> {
        let Some(to) = &self.to else {
            return Some(subject.to_owned());
        };
        let source = self.source.join(".");
        if !valid_literal(subject) || !is_subset(subject, &source) {
            return None;
        }
        let tokens: Vec<&str> = subject.split('.').collect();
        let written: Option<Vec<Vec<u8>>> = to
            .iter()
            .map(|token| self.write(token, &tokens).map(String::into_bytes))
            .collect();
        Some(String::from_utf8_lossy(&written?.join(&b'.')).into_owned())
    }

    fn write(&self, token: &Token, tokens: &[&str]) -> Option<String> {
        let at = |wildcard: &usize| tokens.get(self.position(*wildcard)).copied();
        Some(match token {
            Token::Text(text) => text.clone(),
            Token::Tail => tokens.get(self.source.len().checked_sub(1)?..)?.join("."),
            Token::Wildcard(index) => at(index)?.to_owned(),
            Token::Partition(buckets, of) => {
                let key: Vec<u8> = if of.is_empty() {
                    tokens.join(".").into_bytes()
                } else {
                    of.iter().filter_map(at).flat_map(str::bytes).collect()
                };
                fnv(&key).checked_rem(*buckets)?.to_string()
            }
            Token::Random => return None,
            Token::Cut(cut, index, size) => cut.write(at(index)?, *size),
            Token::Split(index, by) => split(at(index)?, by),
        })
    }

    /// Where a wildcard of the source stands. One that does not exist is the first token, as a map without it says.
    fn position(&self, wildcard: usize) -> usize {
        let mut stars = self
            .source
            .iter()
            .enumerate()
            .filter(|(_, token)| *token == "*");
        wildcard
            .checked_sub(1)
            .and_then(|index| stars.nth(index))
            .map_or(0, |(at, _)| at)
    }
}

impl Cut {
    /// Cuts a token at a position; one that is too short stays whole. A cut within a letter leaves no letter, as it does
    /// for the server.
    fn write(self, token: &str, size: usize) -> String {
        let bytes = token.as_bytes();
        if size == 0 || size >= bytes.len() {
            return token.to_owned();
        }
        let pieces: Vec<&[u8]> = match self {
            Self::SplitFromLeft => halves(bytes, size).to_vec(),
            Self::SplitFromRight => halves(bytes, bytes.len() - size).to_vec(),
            Self::Left => vec![bytes.get(..size).unwrap_or_default()],
            Self::Right => vec![bytes.get(bytes.len() - size..).unwrap_or_default()],
            Self::SliceFromLeft => bytes.chunks(size).collect(),
            Self::SliceFromRight => {
                let mut pieces: Vec<&[u8]> = bytes.rchunks(size).collect();
                pieces.reverse();
                pieces
            }
        };
        String::from_utf8_lossy(&pieces.join(&b'.')).into_owned()
    }
}

fn halves(bytes: &[u8], at: usize) -> [&[u8]; 2] {
    bytes
        .split_at_checked(at)
        .map_or([bytes, &[]], |(left, right)| [left, right])
}

/// Splits a token at each delimiter, as the server does: a dot goes between two pieces if the later one has something in it,
/// and never after an empty first one.
fn split(token: &str, by: &str) -> String {
    let pieces: Vec<&str> = token.split(by).collect();
    let mut written = String::new();
    for (at, piece) in pieces.iter().enumerate() {
        written.push_str(piece);
        let more = pieces.get(at + 1).is_some_and(|next| !next.is_empty());
        if more && !(at == 0 && piece.is_empty()) {
            written.push('.');
        }
    }
    written
}

/// FNV-1a of 32 bits, by which partitions are told.
fn fnv(key: &[u8]) -> u32 {
    key.iter().fold(0x811c_9dc5, |hash, byte| {
        (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
    })
}

/// Reads one token of a destination, for a source with so many wildcards.
fn parse(token: &str, stars: usize) -> Result<Token, TransformError> {
    let wrong = || TransformError::Token(token.to_owned());
    let parsed = if token == ">" {
        Token::Tail
    } else if let Some(index) = token.strip_prefix('$') {
        match index.parse::<i64>() {
            Ok(index) => Token::Wildcard(usize::try_from(index).unwrap_or_default()),
            Err(_) => Token::Text(token.to_owned()),
        }
    } else if let Some(call) = token
        .strip_prefix("{{")
        .and_then(|rest| rest.strip_suffix("}}"))
    {
        parse_call(call).ok_or_else(wrong)?
    } else {
        Token::Text(token.to_owned())
    };
    let indexes: &[usize] = match &parsed {
        Token::Wildcard(index) | Token::Cut(_, index, _) | Token::Split(index, _) => &[*index],
        Token::Partition(_, of) => of,
        Token::Text(_) | Token::Tail | Token::Random => &[],
    };
    if indexes.iter().any(|index| *index > stars) || (stars == 0 && !indexes.is_empty()) {
        return Err(wrong());
    }
    Ok(parsed)
}

/// `name(argument, …)`, with blanks where Go's expressions allow them.
fn parse_call(call: &str) -> Option<Token> {
    let (name, rest) = call.trim().split_once('(')?;
    let name = name.trim_end();
    let arguments: Vec<&str> = rest.strip_suffix(')')?.split(',').collect();
    let number = |text: &&str| text.trim_matches(' ').trim_start().parse::<i64>().ok();
    let index = |text: &&str| number(text).map(|n| usize::try_from(n).unwrap_or_default());
    let (first, others) = arguments.split_first()?;
    match (others, name) {
        ([], name) if named(name, "Wildcard") => Some(Token::Wildcard(index(first)?)),
        ([], name) if named(name, "Random") => {
            number(first).filter(|n| *n > 0).map(|_| Token::Random)
        }
        (others, name) if named(name, "Partition") => {
            let buckets = u32::try_from(number(first)?).ok().filter(|n| *n > 0)?;
            let of: Option<Vec<usize>> = others.iter().map(index).collect();
            Some(Token::Partition(buckets, of?))
        }
        ([by], name) if named(name, "Split") => {
            let by = by.trim_start();
            (!by.contains([' ', '.'])).then(|| Some(Token::Split(index(first)?, by.to_owned())))?
        }
        ([size], name) => {
            let (_, cut) = CUTS.iter().find(|(known, _)| named(name, known))?;
            Some(Token::Cut(*cut, index(first)?, index(size)?))
        }
        _ => None,
    }
}

/// Whether a text is this name; what is a capital there may be either.
fn named(text: &str, name: &str) -> bool {
    text.len() == name.len()
        && text.bytes().zip(name.bytes()).all(|(given, known)| {
            given == known || (known.is_ascii_uppercase() && given == known.to_ascii_lowercase())
        })
}
