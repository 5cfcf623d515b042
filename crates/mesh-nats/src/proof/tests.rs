//! A proof ends in time, whatever a server does.

use mesh_derive::{Bounds, derive};
use mesh_model::Records;
use nkeys::KeyPair;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::*;

/// A server that serves the one who watches, and has everybody else wait: it answers whatever they say with a question of
/// its own, and so is never silent.
async fn dribbles(listener: TcpListener) {
    let mut connections = JoinSet::new();
    for at in 0.. {
        let Ok((stream, _)) = listener.accept().await else {
            return;
        };
        connections.spawn(talk(stream, at == 0));
    }
}

async fn talk(mut stream: TcpStream, serves: bool) {
    let (read, mut write) = stream.split();
    let mut lines = BufReader::new(read).lines();
    let _told = write.write_all(b"INFO {\"nonce\":\"abc\"}\r\n").await;
    let mut pings = 0;
    while let Ok(Some(line)) = lines.next_line().await {
        if line == "PING" {
            pings += 1;
        }
        let answer: &[u8] = match line.as_str() {
            // That it is connected it says to anybody.
            "PING" if serves || pings == 1 => b"PONG\r\n",
            "PING" | "PONG" => b"PING\r\n",
            _ => b"",
        };
        if write.write_all(answer).await.is_err() {
            return;
        }
    }
}

#[tokio::test]
async fn a_server_that_is_never_done_does_not_hold_a_proof() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("nats://{}", listener.local_addr().unwrap());
    let mut server = JoinSet::new();
    server.spawn(dribbles(listener));
    let credential = Credential::NKeySeed(KeyPair::new_user().seed().unwrap());
    let facts = BusFacts {
        domain: None,
        account: "MESH".to_owned(),
    };
    let proving = Proving {
        endpoint: Endpoint {
            urls: vec![url],
            tls: None,
            name: "test".to_owned(),
        },
        controller: credential.clone(),
        facts: facts.clone(),
        extent: Extent::Whole,
        at_a_time: 1,
        within: Duration::from_millis(300),
    };
    let records = Records::new("test".parse().unwrap(), facts);
    let plan = derive(&records, &Bounds::default());
    let keys = BTreeMap::from([(Principal::Controller, credential.clone())]);
    let error = prove(&proving, &plan, &keys).await.unwrap_err();
    let late = matches!(
        &error,
        ProveError::Late {
            done: 0,
            asked: 1,
            ..
        }
    );
    assert!(late, "{error}");
    let act = Act::Publish("mesh.ctl.mark".parse().unwrap());
    let one = prove_one(&proving, &plan, &Principal::Controller, &credential, &act);
    let error = one.await.unwrap_err();
    // Now it is the watching that is not served.
    let late = matches!(
        &error,
        ProveError::Late {
            done: 0,
            asked: 1,
            ..
        }
    );
    assert!(late, "{error}");
}
