//! What a token says, and what a wrong paste is told.

use proptest::prelude::*;

use super::*;

/// As release 0.1 wrote it. Today's code must read it for as long as form 1 is spoken.
const V1: &str = include_str!("v1.txt");

fn token() -> Token {
    Token {
        mesh: "home".parse().unwrap(),
        urls: vec![
            "tls://controller.example:4222".to_owned(),
            "tls://192.0.2.7:4222".to_owned(),
        ],
        ca: Some(CaFingerprint::from_bytes([7; 32])),
        id: "k3v9q2".parse().unwrap(),
        joiner: UserKey::generate().unwrap(),
        controller: crate::keys::SigningKey::generate().unwrap().public(),
        node: Some("web-1".parse().unwrap()),
        expires: 1_796_000_000,
    }
}

fn read(text: &str) -> Result<Token, ReadTokenError> {
    text.parse()
}

#[test]
fn it_comes_back_whole() {
    let token = token();
    let text = token.render();
    let again = read(&format!("  {}\n", text.expose())).unwrap();
    assert_eq!(again.render().expose(), text.expose());
    assert_eq!(again.mesh, token.mesh);
    assert_eq!(again.urls, token.urls);
    assert_eq!(again.ca, token.ca);
    assert_eq!(again.id, token.id);
    assert_eq!(again.joiner.seed().expose(), token.joiner.seed().expose());
    assert_eq!(again.controller, token.controller);
    assert_eq!(again.node, token.node);
    assert_eq!(again.expires, token.expires);
    assert!(text.expose().len() < 400, "{}", text.expose().len());
}

#[test]
fn a_bus_without_an_authority_has_none_when_it_is_read_again() {
    let mut token = token();
    token.ca = None;
    assert_eq!(read(token.render().expose()).unwrap().ca, None);
}

#[test]
fn form_1_is_still_read() {
    let token = read(V1).unwrap();
    assert_eq!(
        (
            token.mesh.as_str(),
            token.id.as_str(),
            token.node.as_ref().map(NodeName::as_str)
        ),
        ("home", "k3v9q2", Some("web-1"))
    );
    assert_eq!(token.render().expose(), V1.trim());
}

#[test]
fn cut_anywhere_it_is_said_to_be_cut_short() {
    let text = token().render();
    for end in PREFIX.len()..text.expose().len() {
        let error = read(text.expose().get(..end).unwrap()).unwrap_err();
        assert!(
            matches!(error, ReadTokenError::CutShort { .. }),
            "cut at {end}: {error}"
        );
    }
}

#[test]
fn a_wrong_paste_is_told_what_is_wrong() {
    let text = token().render();
    let text = text.expose();
    let body = text.strip_prefix(PREFIX).unwrap();
    let rows = [
        (
            String::new(),
            "this is no token: one begins with `mesh1.`; `meshctl token create` prints one",
        ),
        ("hello".to_owned(), "this is no token"),
        (text.get(1..).unwrap().to_owned(), "this is no token"),
        (format!("mesh0.{body}"), "this is no token"),
        (format!("mesh.{body}"), "this is no token"),
        (
            format!("mesh2.{body}"),
            "the token is of form 2, and this release reads form 1",
        ),
        (format!("{text}A"), "the token goes on after its end"),
        (
            format!("{text} --name web-1"),
            "the token goes on after its end",
        ),
        (
            text.replacen(body.get(20..21).unwrap(), " ", 1),
            "belongs in no token",
        ),
        (
            format!("mesh1. {body}"),
            "character 1 after `mesh1.` belongs in no token",
        ),
        (
            format!("mesh1.{} …", body.get(..20).unwrap()),
            "character 21 after `mesh1.` belongs in no token",
        ),
    ];
    for (text, expected) in rows {
        let error = read(&text).unwrap_err().to_string();
        assert!(
            error.contains(expected),
            "`{expected}` expected, got `{error}`"
        );
    }
}

#[test]
fn content_no_release_wrote_is_refused_although_its_checksum_fits() {
    let with = |payload: &[u8]| {
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        let body = [&length[1..], payload, &checksum(payload)].concat();
        read(&format!("{PREFIX}{}", BASE64URL_NOPAD.encode(&body))).unwrap_err()
    };
    let token = token();
    assert_eq!(with(&[]), ReadTokenError::Form);
    assert_eq!(
        with(&[&token.payload()[..], &[0]].concat()),
        ReadTokenError::Form
    );
    let mut payload = token.payload().to_vec();
    let at = payload
        .windows(5)
        .position(|window| window == b"web-1")
        .unwrap();
    payload[at] = b'W';
    assert!(matches!(with(&payload), ReadTokenError::Name(_)));
    payload[at] = b'w';
    let seed = token.joiner.seed_bytes();
    let at = payload
        .windows(seed.len())
        .position(|window| window == &seed[..])
        .unwrap();
    payload[at + 5] ^= 1;
    assert!(matches!(
        with(&payload),
        ReadTokenError::Key(KeyTextError::Malformed { .. })
    ));
}

#[test]
fn neither_debug_nor_an_error_shows_the_secret() {
    let token = token();
    let text = token.render();
    let printed = format!("{token:?} {token:#?} {text:?}");
    assert!(
        !printed.contains(token.joiner.seed().expose()) && !printed.contains(text.expose()),
        "{printed}"
    );
    let mut cut = text.expose().to_owned();
    cut.truncate(100);
    let error = read(&cut).unwrap_err();
    assert!(!format!("{error} {error:?}").contains(cut.get(90..).unwrap()));
}

#[test]
fn it_expires_at_its_second() {
    let token = token();
    assert!(!token.is_expired(token.expires - 1));
    assert!(token.is_expired(token.expires));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn one_changed_character_is_refused(at: prop::sample::Index, to in "[A-Za-z0-9_-]") {
        let text = token().render();
        let mut bytes = text.expose().as_bytes().to_vec();
        let at = PREFIX.len() + at.index(bytes.len() - PREFIX.len());
        prop_assume!(bytes[at] != to.as_bytes()[0]);
        bytes[at] = to.as_bytes()[0];
        prop_assert!(read(&String::from_utf8(bytes).unwrap()).is_err());
    }

    #[test]
    fn no_text_makes_reading_panic(text in any::<String>(), body in "[A-Za-z0-9_-]{0,40}") {
        drop(read(&text));
        drop(read(&format!("mesh1.{text}")));
        drop(read(&format!("mesh1.{body}")));
        drop(read(&format!("mesh1.AAAA{body}")));
    }
}
