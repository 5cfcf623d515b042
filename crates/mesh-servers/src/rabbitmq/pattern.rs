//! Permission patterns: Erlang's `re:run/3` on bytes, as `rabbit_auth_backend_internal` and `rabbit_re` call it.
//!
//! That is PCRE with no options: unanchored, byte by byte (`é` is two), letters of Latin-1 in `\w` and in `(?i)`
//! (`pcre_latin_1_table.c`), `$` also before a last newline. The crate `fancy-regex` has the look-around, the possessive
//! repeats and the back references of PCRE, and matches bytes; it differs in what a class, an escape, `{` and `$` mean. So a
//! pattern is read here by PCRE's rules (8.44, the one of OTP up to 27) and written anew, each class as the bytes it holds.
//! What neither has in common — recursion, conditions, verbs, callouts, most of `\p`, `\X` — is [`PatternError::Unsupported`]:
//! a pattern of which we do not know what it allows. `regex-lite` was not enough: a permission with a negative look-ahead
//! (`^(?!amq\.)`) is the usual way to write "all but".

mod class;
mod escape;
mod translate;

use fancy_regex::{BytesMode, RegexBuilder};

use translate::translate;

/// How long a pattern may be, in bytes (`rabbit_re:max_pattern_length/0`).
pub const MAX_PATTERN: usize = 1024;

/// How much one match may try before the answer is no (`rabbit_re:match_limit/0`).
const MATCH_LIMIT: usize = 50_000;

/// A pattern that a broker would not take, or that we cannot evaluate.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// Longer than [`MAX_PATTERN`].
    #[error("pattern has {0} bytes; a broker takes at most {MAX_PATTERN}")]
    TooLong(usize),
    /// Refused by PCRE.
    #[error("pattern is invalid at byte {at}: {why}")]
    Invalid {
        /// Where, in bytes.
        at: usize,
        /// Why, in PCRE's words.
        why: &'static str,
    },
    /// Valid to PCRE, for all we know, and not evaluated here.
    #[error("pattern uses {what} at byte {at}, which is not evaluated here")]
    Unsupported {
        /// Where, in bytes.
        at: usize,
        /// What.
        what: String,
    },
}

/// A permission pattern a broker takes.
#[derive(Debug, Clone)]
pub struct Pattern(fancy_regex::Regex);

impl Pattern {
    /// Reads a pattern. Nothing stands for `^$`, as in `check_resource_access/4`, and a NUL ends it, as it
    /// ends what PCRE is given.
    pub fn new(text: &str) -> Result<Self, PatternError> {
        if text.len() > MAX_PATTERN {
            return Err(PatternError::TooLong(text.len()));
        }
        let text = if text.is_empty() { "^$" } else { text };
        let ends = text.split('\0').next().unwrap_or_default();
        let written = translate(ends.as_bytes())?;
        RegexBuilder::new(&written)
            .bytes_mode(BytesMode::Ascii)
            .backtrack_limit(MATCH_LIMIT)
            .build()
            .map(Self)
            .map_err(refused)
    }

    /// Whether it allows a name or a routing key. A match that tries too much is none.
    pub fn allows(&self, name: &str) -> bool {
        self.0.is_match(name.as_bytes()).unwrap_or(false)
    }
}

/// What the engine says of a pattern that was written for it.
fn refused(error: fancy_regex::Error) -> PatternError {
    use fancy_regex::CompileError::{LookBehindNotConst, VariableLookBehindRequiresFeature};
    if let fancy_regex::Error::CompileError(error) = &error
        && matches!(
            **error,
            LookBehindNotConst | VariableLookBehindRequiresFeature
        )
    {
        return PatternError::Invalid {
            at: 0,
            why: "lookbehind assertion is not fixed length",
        };
    }
    PatternError::Unsupported {
        at: 0,
        what: error.to_string(),
    }
}

/// Whether a topic permission allows every one of these keys, the routing key and those of CC and BCC (4.0.3 and later).
/// Without a row for the exchange everything is allowed.
pub fn topic_allows(pattern: Option<&Pattern>, keys: &[&str]) -> bool {
    pattern.is_none_or(|pattern| keys.iter().all(|key| pattern.allows(key)))
}

/// A topic permission's pattern with `{name}` replaced by each variable's value, escaped (`expand_topic_permission/2`;
/// brokers before 4.2.4 do not escape it).
pub fn expand(pattern: &str, variables: &[(&str, &str)]) -> String {
    let replace = |text: String, (name, value): &(&str, &str)| {
        text.replace(&format!("{{{name}}}"), &escape(value))
    };
    variables.iter().fold(pattern.to_owned(), replace)
}

/// A text as a pattern that matches it alone, in a class too (`rabbit_re:escape/1`).
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if r"\^$.|?*+()[]{}-".contains(c) {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

#[cfg(test)]
mod tests;
