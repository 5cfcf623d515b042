//! What PCRE says of patterns a permission may be written with.

use super::*;

fn allows(pattern: &str, name: &str) -> bool {
    Pattern::new(pattern).unwrap().allows(name)
}

fn check(rows: &[(&str, &str, bool)]) {
    for (pattern, name, expected) in rows {
        assert_eq!(allows(pattern, name), *expected, "{pattern:?} {name:?}");
    }
}

#[test]
fn a_pattern_means_what_it_means_to_erlang() {
    check(&[
        ("", "", true),
        ("", "x", false),
        ("^$", "\n", true),
        ("mesh", "xmeshx", true),
        ("^a$", "a\n", true),
        (r"^a\z", "a\n", false),
        (r"^a\Z", "a\n", true),
        (r"^a$", "a\n\n", false),
        ("(?m)^b$", "a\nb", true),
        ("^b", "a\nb", false),
        ("^.{4}$", "café", false),
        ("^.{5}$", "café", true),
        (r"^\w+$", "café", false),
        (r"^caf\W\W$", "café", false),
        (r"^caf\xC3\xa9$", "café", true),
        ("^café$", "café", true),
        ("(?i)^CAFÉ$", "cafÉ", true),
        ("(?i)^MESH$", "mesh", true),
        ("^(?i:m)esh$", "Mesh", true),
        ("^(?i:m)esh$", "MESH", false),
        ("^((?i)m)esh$", "MeSh", false),
        (r"^(?!amq\.)", "amq.gen", false),
        (r"^(?!amq\.)", "mesh", true),
        (r"(?<=a)b", "ab", true),
        (r"(?<!a)b", "ab", false),
        (r"^(a|b)\1$", "aa", true),
        (r"^(a|b)\1$", "ab", false),
        (r"^(?<n>a)\k<n>(?P=n)\g{n}\g1\g{-1}$", "aaaaaa", true),
        ("^a{2,3}$", "aaaa", false),
        ("^a{,3}$", "a{,3}", true),
        ("^a{x}$", "a{x}", true),
        ("^{$", "{", true),
        ("^a++a", "aaa", false),
        ("^a+?$", "aaa", true),
        ("^(?>a+)a", "aaa", false),
    ]);
}

#[test]
fn a_class_or_an_escape_means_what_it_means_to_erlang() {
    check(&[
        ("^[a&&b]+$", "&a", true),
        ("^[]a]+$", "]a", true),
        ("^[^]]$", "a", true),
        ("^[a-]+$", "-a", true),
        (r"^[\w-]+$", "a-b", true),
        ("^[[:alpha:]]+$", "abc", true),
        ("^[[:^digit:]]+$", "a1", false),
        ("^[[]$", "[", true),
        (r"^[\Qa]\E]+$", "a]", true),
        (r"^\Qa.b\E.$", "a.bx", true),
        (r"^\Qa.b$", "a.b$", true),
        (r"^\_\-\/\.$", "_-/.", true),
        (r"^\h\v?$", "\t\n", true),
        (r"^a\Rb$", "a\r\nb", true),
        (r"\bmesh\b", "a mesh b", true),
        (r"\bmesh\b", "amesh", false),
        (r"\Bmesh", "amesh", true),
        (r"^\d+\s\D$", "12 x", true),
        (r"^\x{41}\101\o{101}$", "AAA", true),
        (r"^(a)\81$", "a81", true),
        ("^a(?#b)c$", "ac", true),
        ("(?x)^ a b # c\n $", "ab", true),
        ("(?s)^a.b$", "a\nb", true),
        ("^a.b$", "a\nb", false),
        (r"^\N$", "\n", false),
        ("^(?:a|b|)$", "", true),
        ("^()$", "", true),
        ("^(?=a)*b", "b", true),
        ("^[é]$", "é", false),
        ("^[é]{2}$", "é", true),
        ("a]}", "a]}", true),
        (r"^a\Kb$", "ab", true),
        (r"^\cA$", "\u{1}", true),
        ("\0", "a", true),
        (r"^\81$", "81", true),
        (r"^[\B]$", "B", true),
        (r"^\p{L}\pL$", "é", false),
        (r"(?C1)a", "a", true),
        (r"[^\D\d]*", "a", true),
    ]);
}

#[test]
fn what_pcre_refuses_is_refused() {
    for pattern in [
        "[",
        "(",
        ")",
        "*",
        "+a",
        "a**",
        "^*",
        "a|*",
        "(?i)*",
        r"\",
        "a{2,1}",
        "a{65536}",
        "[z-a]",
        "[]",
        "[^]",
        r"[a-\d]",
        r"\x{}",
        "(?<=a+)b",
        "(?",
        "(?y)",
        "(?<n",
        "(?<1>a)",
        "(?<n>a)(?<n>b)",
        r"\1",
        r"(a)\2",
        r"\k<n>",
        "[[:foo:]]",
        "[[.a.]]",
        "[:alpha:]",
        r"\x{100}",
        r"\u0041",
        r"\g",
        "(*)",
        r"\c",
        "(?#",
        "a{1}{2}",
        "()(",
    ] {
        let refused = matches!(Pattern::new(pattern), Err(PatternError::Invalid { .. }));
        assert!(refused, "{pattern:?} {:?}", Pattern::new(pattern));
    }
    assert!(Pattern::new(&"a".repeat(1024)).is_ok());
    assert_eq!(
        Pattern::new(&"a".repeat(1025)).unwrap_err(),
        PatternError::TooLong(1025)
    );
}

#[test]
fn what_is_not_evaluated_is_said() {
    for pattern in [
        "(?R)",
        "(?1)(a)",
        "(?(1)a|b)",
        "(*ACCEPT)",
        r"\p{Greek}",
        r"\X",
        "(?|(a)|(b))",
        r"\g<1>(a)",
    ] {
        let unsupported = matches!(Pattern::new(pattern), Err(PatternError::Unsupported { .. }));
        assert!(unsupported, "{pattern:?}");
    }
}

#[test]
fn a_match_that_tries_too_much_is_none() {
    let name = format!("{}b", "a".repeat(60));
    assert!(!allows("^(a+)+$", &name));
    assert!(!allows(r"^(a|aa)+\1$", &name));
}

#[test]
fn a_variable_s_value_means_itself() {
    let pattern = expand("^[{client_id}]-sensors$", &[("client_id", "a-z")]);
    assert!(allows(&pattern, "a-sensors") && !allows(&pattern, "b-sensors"));
    let hostile = r"a.b*c+d?e^f$g|h(i)j[k]l{m}n\o-p";
    assert!(allows(&format!("^{}$", escape(hostile)), hostile));
    assert!(topic_allows(None, &["anything"]));
    let own = Pattern::new(r"^report\.n1$").unwrap();
    assert!(!topic_allows(Some(&own), &["report.n1", "report.n2"]));
}
