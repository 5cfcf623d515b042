//! A parsed file whatever its notation, and why a text is none.

use toml::Spanned;
use toml::de::DeValue;

/// A file's values, each with its place.
#[derive(Debug)]
pub(crate) struct Tree<'a> {
    /// The whole.
    pub(crate) root: Spanned<DeValue<'a>>,
    /// Where it says that there is nothing, which no key here can mean. `false` stands there instead.
    pub(crate) nulls: Vec<usize>,
}

/// Why a text is no file of its notation, and at which byte.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) at: usize,
    pub(crate) message: String,
    /// Whether the notation has the text and we do not.
    pub(crate) ours: bool,
}

impl Fault {
    /// A key that is there already.
    pub(crate) fn twice(at: usize, key: &str) -> Self {
        let key = crate::source::quoted(key);
        Self::ours(at, format!("{key} is there twice; keep one of them"))
    }

    /// What the notation has and no file of ours may.
    pub(crate) fn ours(at: usize, message: String) -> Self {
        let ours = true;
        Self { at, message, ours }
    }
}

/// A text that would have us recurse as deep as it likes.
pub(crate) fn nested_too_deep(at: usize) -> Fault {
    let message = "values lie deeper inside one another than any key here needs".to_owned();
    Fault::ours(at, message)
}

/// A number as another notation writes it; nothing when it is none, or one that TOML writes otherwise (`.5`, `01`).
pub(crate) fn number(text: &str) -> Option<DeValue<'_>> {
    let digits = text.trim_start_matches(['+', '-']);
    if !digits.starts_with(|c: char| c.is_ascii_digit()) || text.parse::<f64>().is_err() {
        return None;
    }
    let read = DeValue::parse(text).ok()?.into_inner();
    matches!(read, DeValue::Integer(_) | DeValue::Float(_)).then_some(read)
}
