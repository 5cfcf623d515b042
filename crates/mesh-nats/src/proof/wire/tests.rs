//! What is written to a server, and what is read of it, byte for byte.

use super::*;

fn wire() -> (Wire, tokio::io::DuplexStream) {
    let (stream, other) = tokio::io::duplex(1 << 16);
    let wire = Wire {
        stream: Box::new(stream),
        read: Reading::default(),
        out: BytesMut::new(),
        challenge: "c".to_owned(),
        refused: None,
    };
    (wire, other)
}

#[test]
fn nothing_but_a_body_can_be_more_than_one_word_on_the_wire() {
    let injected = [
        "",
        "a b",
        "a\r\nPUB $JS.API.STREAM.DELETE.NODES 0\r\n",
        "a\n",
        "a\t",
        "a\0",
    ];
    let (mut wire, _other) = wire();
    for bad in injected {
        assert!(wire.subscribe(bad, None, 1).is_err(), "{bad:?}");
        assert!(wire.subscribe("a", Some(bad), 1).is_err(), "{bad:?}");
        assert!(wire.publish(bad, None, &[], b"").is_err(), "{bad:?}");
        assert!(wire.publish("a", Some(bad), &[], b"").is_err(), "{bad:?}");
        for header in [(bad, "v"), ("n", bad)] {
            assert!(wire.publish("a", None, &[header], b"").is_err(), "{bad:?}");
        }
    }
    assert!(wire.out.is_empty(), "{:?}", wire.out);
    wire.subscribe("a.>", Some("g"), 7).unwrap();
    wire.publish("a", None, &[], b"1\r\n2").unwrap();
    wire.publish("a", Some("r"), &[("N", "v")], b"b").unwrap();
    wire.unsubscribe(7).unwrap();
    let expected = "SUB a.> g 7\r\nPUB a 4\r\n1\r\n2\r\nHPUB a r 18 19\r\nNATS/1.0\r\nN: v\r\n\r\nb\r\nUNSUB 7\r\n";
    assert_eq!(String::from_utf8_lossy(&wire.out), expected);
}

#[test]
fn a_challenge_that_could_be_more_than_a_part_of_a_subject_is_none() {
    let long = "a".repeat(CHALLENGE + 1);
    for bad in ["", "a b", "a.b", ">", "*", "a\r\nPING", "\u{e9}", &long] {
        assert!(challenge(bad).is_err(), "{bad:?}");
    }
    assert_eq!(challenge("_aZ-09").unwrap(), "_aZ-09");
}

#[test]
fn what_is_to_be_written_is_not_shown() {
    let (mut wire, _other) = wire();
    wire.out.extend_from_slice(b"CONNECT {\"jwt\":\"secret\"}");
    let shown = format!("{wire:?}");
    assert!(!shown.contains("secret"), "{shown}");
}

#[tokio::test]
async fn a_server_that_says_what_none_does_is_away_in_one_short_line() {
    for said in [
        format!(
            "-ERR '{}'\r\nMSG a 1 {}\r\n",
            "x\u{1b}".repeat(2000),
            usize::MAX
        ),
        "x".repeat(LINE + 1),
    ] {
        let (mut wire, mut other) = wire();
        let server = async move {
            // It may be hung up on before it is through.
            let _written = other.write_all(said.as_bytes()).await;
        };
        let client = async {
            let error = first_error(&mut wire).await;
            // What is not read is not waited for.
            drop(wire);
            error.to_string()
        };
        let ((), error) = tokio::join!(server, client);
        assert!(error.len() < 700, "{error}");
        assert!(!error.contains('\u{1b}'), "{error}");
    }
}

async fn first_error(wire: &mut Wire) -> BusError {
    loop {
        if let Err(error) = wire.next().await {
            return error;
        }
    }
}
