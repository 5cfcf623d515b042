//! What one account may offer another: exports, and the subjects an import may be given in its place (nats-io/jwt v2).

/// What is exported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExportKind {
    /// Messages from the account.
    Stream,
    /// Requests to it.
    Service,
}

/// One subject an account exports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Export {
    /// Which way messages go.
    pub kind: ExportKind,
    /// The subject, possibly with wildcards.
    pub subject: String,
}

/// Whether these exports may stand together: of one kind, none may lie within another (`Exports.Validate`).
pub fn exports_ok(exports: &[Export]) -> bool {
    exports.iter().enumerate().all(|(at, export)| {
        super::valid_filter(&export.subject)
            && exports.iter().enumerate().all(|(other_at, other)| {
                at == other_at
                    || export.kind != other.kind
                    || !is_contained(&export.subject, &other.subject)
            })
    })
}

/// `Subject.IsContainedIn` of nats-io/jwt, which is not the server's rule: its `*` holds a `>` too.
fn is_contained(narrow: &str, wide: &str) -> bool {
    let mut tokens = narrow.split('.');
    let mut wanted = wide.split('.').peekable();
    while let Some(want) = wanted.next() {
        let Some(token) = tokens.next() else {
            return false;
        };
        if want == ">" && wanted.peek().is_none() {
            return true;
        }
        if want != token && want != "*" {
            return false;
        }
    }
    tokens.next().is_none()
}

/// Whether an import of `from` may be given the local subject `to` (`RenamingSubject.Validate`): each `*` of the one has
/// to be a `*` or a `$n` of the other, and both or neither end in `>`.
pub fn rename_ok(from: &str, to: &str) -> bool {
    let open = |text: &str| text == ">" || text.ends_with(".>");
    let stars = from.split('.').filter(|token| *token == "*").count();
    let mut placed = 0;
    for token in to.split('.') {
        match reference(token) {
            Some(index) if index > i64::try_from(stars).unwrap_or(i64::MAX) => return false,
            Some(_) => placed += 1,
            None => placed += usize::from(token == "*"),
        }
    }
    !from.is_empty() && super::valid_filter(to) && open(from) == open(to) && placed == stars
}

/// The subject that a local subject with references stands for: each `$n` a `*` (`RenamingSubject.ToSubject`).
pub fn rename_to_subject(to: &str) -> String {
    let plain = |token| reference(token).map_or(token, |_| "*");
    to.split('.').map(plain).collect::<Vec<_>>().join(".")
}

fn reference(token: &str) -> Option<i64> {
    token.strip_prefix('$')?.parse().ok()
}
