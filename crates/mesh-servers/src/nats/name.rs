//! Names as JetStream and its clients take them: streams, consumers, key-value buckets and keys, prefixes, queue groups.

/// How long a stream's or a consumer's name may be, in bytes (`JSMaxNameLen`).
pub const MAX_NAME: usize = 255;

/// Whether a stream or a consumer may have this name.
///
/// `isValidAssetName` of `server/jetstream_api.go` refuses blanks, `.`, `*`, `>` and separators of paths; longer than
/// [`MAX_NAME`] is refused before; NUL, which no disk takes, is refused by the clients (jsm.go `IsValidName`). Unicode is
/// fine, `Foo` and `foo` are two names, and neither is so for the mesh, which has [`mesh_model::StreamName`].
pub fn valid_name(name: &str) -> bool {
    !name.is_empty() && name.len() <= MAX_NAME && !name.contains(ends_token)
}

fn ends_token(c: char) -> bool {
    matches!(
        c,
        ' ' | '\t' | '\r' | '\n' | '\x0c' | '.' | '*' | '>' | '/' | '\\' | '\0'
    )
}

/// Whether a key-value bucket may have this name (nats.go `validBucketRe`).
pub fn valid_kv_bucket(name: &str) -> bool {
    !name.is_empty()
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
}

/// Whether a value may be kept under this key (nats.go `keyValid`).
pub fn valid_kv_key(key: &str) -> bool {
    !key.is_empty()
        && !key.starts_with('.')
        && !key.ends_with('.')
        && key
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "-/_=.".contains(c))
}

/// Whether the `JetStream` API may be reached under this prefix: each token a name (jsm.go `isValidSubjectPrefix`).
pub fn valid_api_prefix(prefix: &str) -> bool {
    prefix.split('.').all(valid_name)
}

/// Whether a subscription may be in this queue group: no blanks, and not nothing (nats.go `badQueue`). A server splits
/// the line of a subscription on blanks, so it never sees one.
pub fn valid_queue_group(name: &str) -> bool {
    !name.is_empty() && !name.contains([' ', '\t', '\r', '\n'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_ends_at_255_bytes_whatever_they_spell() {
        assert!(valid_name(&"x".repeat(255)) && !valid_name(&"x".repeat(256)));
        assert!(valid_name(&"é".repeat(127)) && !valid_name(&"é".repeat(128)));
        assert!(valid_name("$JS") && valid_name("a:b") && valid_name("\u{200b}"));
    }

    #[test]
    fn a_prefix_is_made_of_names() {
        assert!(valid_api_prefix("js.foreign"));
        for text in ["", "a.", ".a", "a..b", "bad*prefix", "a b", "a.>"] {
            assert!(!valid_api_prefix(text), "{text:?}");
        }
    }
}
