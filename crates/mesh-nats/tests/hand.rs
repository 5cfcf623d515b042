//! What went wrong for others with servers that are not as new as their clients: a stand-in for one, on loopback.

#[cfg(test)]
mod cases {
    use std::io::{BufRead, BufReader, Write};
    use std::net::{Ipv4Addr, TcpListener};
    use std::thread;
    use std::time::Duration;

    use mesh_bus::BusError;
    use mesh_model::{BusFacts, NodeName};
    use mesh_nats::{Credential, Dialling, Endpoint, FirstAttempt, NatsNode};
    use nkeys::KeyPair;

    /// Something that says it is a server of this version, and answers nothing but pings.
    fn server(version: &str) -> u16 {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let info = format!(
            "INFO {{\"server_id\":\"S\",\"server_name\":\"s\",\"version\":\"{version}\",\"proto\":1,\"host\":\"127.0.0.1\",\
             \"port\":{port},\"headers\":true,\"max_payload\":1048576,\"nonce\":\"n\",\"auth_required\":true}}\r\n"
        );
        // Ends with its one client.
        thread::spawn(move || {
            let (client, _) = listener.accept().unwrap();
            let mut writer = client.try_clone().unwrap();
            writer.write_all(info.as_bytes()).unwrap();
            for line in BufReader::new(client).lines().map_while(Result::ok) {
                if line.starts_with("PING") && writer.write_all(b"PONG\r\n").is_err() {
                    return;
                }
            }
        });
        port
    }

    async fn connect(version: &str) -> Result<NatsNode, BusError> {
        let endpoint = Endpoint {
            urls: vec![format!("nats://127.0.0.1:{}", server(version))],
            tls: None,
            name: "test".to_owned(),
        };
        let credential = Credential::NKeySeed(KeyPair::new_user().seed().unwrap());
        let node: NodeName = "n1".parse().unwrap();
        let facts = BusFacts {
            domain: None,
            account: "MESH".to_owned(),
        };
        let dialling = Dialling {
            first: FirstAttempt::MustSucceed,
            seed: 7,
        };
        let beat = Duration::from_secs(30);
        let connecting = NatsNode::connect(&endpoint, &credential, &node, facts, beat, dialling);
        tokio::time::timeout(Duration::from_secs(10), connecting)
            .await
            .expect("it is answered, and does not hang")
    }

    /// A client uses what an older server does not know, and hangs for ever.
    /// <https://github.com/nats-io/nats.rs/issues/1317>
    #[tokio::test(flavor = "multi_thread")]
    async fn case_b_561193b_an_older_server_is_refused_by_its_version_when_connecting() {
        for old in ["2.8.4", "2.9.10", "2.10.29"] {
            let refused = connect(old).await.unwrap_err();
            assert!(
                matches!(&refused, BusError::TooOld { found, .. } if found == old),
                "{refused}"
            );
            let said = refused.to_string();
            assert!(
                said.contains(old) && said.contains("needs 2.11.0"),
                "{said}"
            );
            assert!(refused.is_final(), "trying again cannot help");
        }
        let new = connect("2.11.0").await;
        assert!(!matches!(new, Err(BusError::TooOld { .. })), "{new:?}");
    }
}
