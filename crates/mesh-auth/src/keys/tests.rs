//! What a key's text must be, and what is never printed.

use proptest::prelude::*;

use super::*;

/// Made by Go's nkeys, which NATS servers use.
const GO_BOX_SEED: &str = "SXAKIYZX2POLIHZ5W5YZEWVTH24NLEUETBW3TKIVYRSS3GNHFXO5D4JJZM";
const GO_BOX_PUBLIC: &str = "XBUJMZHVOPQ2SK5VD3TY4VNBPVU2YFGRLK6EFPEPSMVDUYEBSROWZCEA";
const GO_ACCOUNT_SEED: &str = "SAAPN4W3EG6KCJGUQTKTJ5GSB5NHK5CHAJL4DBGFUM3HHROI4XUEP4OBK4";
const GO_ACCOUNT_PUBLIC: &str = "ACODERUVFFAWZQDSS6SBIACUA5O6SXF7HJ3YTYXBALHZP3P7R4BUO4J2";

#[test]
fn the_texts_are_those_of_go() {
    let account = AccountKey::from_seed(GO_ACCOUNT_SEED).unwrap();
    assert_eq!(account.public().as_str(), GO_ACCOUNT_PUBLIC);
    let boxed = BoxKey::from_seed(GO_BOX_SEED).unwrap();
    assert_eq!(boxed.public().as_str(), GO_BOX_PUBLIC);
}

fn comes_back<K: Kind>() {
    let key = Key::<K>::generate().unwrap();
    let seed = key.seed();
    assert!(seed.expose().starts_with(&format!("S{}", K::LETTER)));
    assert!(key.public().as_str().starts_with(K::LETTER));
    let again = Key::<K>::from_seed(seed.expose()).unwrap();
    assert_eq!(again.public(), key.public());
    assert_eq!(again.seed().expose(), seed.expose());
    let public = Public::<K>::from_bytes(&key.public().to_bytes()).unwrap();
    assert_eq!(public, key.public());
    assert_ne!(Key::<K>::generate().unwrap().public(), key.public());
}

#[test]
fn every_kind_comes_back_from_its_text() {
    comes_back::<User>();
    comes_back::<Controller>();
    comes_back::<Account>();
    comes_back::<Operator>();
    let key = BoxKey::generate().unwrap();
    let again = BoxKey::from_seed(key.seed().expose()).unwrap();
    assert_eq!(again.public(), key.public());
    assert_eq!(
        key.public().as_str().parse::<BoxPublic>().unwrap(),
        key.public()
    );
}

#[test]
fn a_key_of_another_kind_is_refused_by_what_it_is_for() {
    let error = UserKey::from_seed(GO_ACCOUNT_SEED).unwrap_err();
    assert_eq!(
        error.to_string(),
        "not a user seed: one begins with `SU`; this text is a key for another use, or none"
    );
    let error = GO_BOX_PUBLIC.parse::<UserPublic>().unwrap_err();
    assert_eq!(
        error.to_string(),
        "not a user public key: one begins with `U`; this text is a key for another use, or none"
    );
    assert!(matches!(
        BoxKey::from_seed(GO_ACCOUNT_SEED),
        Err(KeyTextError::Kind { .. })
    ));
}

#[test]
fn a_text_of_another_length_is_told_how_long_a_key_is() {
    for text in ["", "A", "ACODERUVFFAWZQ", &"A".repeat(10_000), "ä"] {
        let error = text.parse::<AccountPublic>().unwrap_err();
        assert!(!matches!(error, KeyTextError::Kind { .. }), "{error}");
    }
    let error = AccountKey::from_seed("SAAPN").unwrap_err();
    assert_eq!(
        error.to_string(),
        "not a whole bus account seed: one has 58 characters, first `SA`; this text has 5",
    );
}

#[test]
fn a_seed_shows_in_no_debug_and_no_error() {
    let key = UserKey::generate().unwrap();
    let seed = key.seed();
    let boxed = BoxKey::generate().unwrap();
    let printed = format!("{key:?} {key:#?} {boxed:?} {seed:?}");
    assert!(
        !printed.contains(seed.expose()) && !printed.contains(boxed.seed().expose()),
        "{printed}"
    );
    assert!(printed.contains(key.public().as_str()));

    let mut text = seed.expose().to_owned();
    text.pop();
    let wrong = [
        UserKey::from_seed(&text).unwrap_err(),
        AccountKey::from_seed(seed.expose()).unwrap_err(),
    ];
    for error in wrong {
        let printed = format!("{error} {error:?}");
        assert!(
            !printed.contains(seed.expose().get(2..10).unwrap()),
            "{printed}"
        );
    }
}

proptest! {
    #[test]
    fn one_changed_character_is_refused(raw: [u8; 32], at in 0..58_usize, to in "[A-Z2-7a-z0-9=]") {
        let seed = UserKey::from_raw(raw).seed();
        let mut text: Vec<String> = seed.expose().chars().map(String::from).collect();
        prop_assume!(text[at] != to);
        text[at] = to;
        prop_assert!(UserKey::from_seed(&text.concat()).is_err());
    }

    #[test]
    fn no_text_makes_reading_panic(text in any::<String>(), letters in "[SUAVOX][A-Z2-7]{55,57}") {
        for text in [text, letters] {
            drop(UserKey::from_seed(&text));
            drop(BoxKey::from_seed(&text));
            drop(text.parse::<UserPublic>());
            drop(text.parse::<BoxPublic>());
        }
    }
}
