//! What a module answers, and what that says.

use std::net::SocketAddr;

use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::*;

struct NoExec;

impl Exec for NoExec {
    async fn exec(&self, command: &[String]) -> Result<(), String> {
        match command {
            [only] if only == "good" => Ok(()),
            _ => Err("exited with status 1".to_owned()),
        }
    }
}

const LONG: Duration = Duration::from_secs(10);

/// A server that says `answer` to whoever asks, and keeps the connection if it has nothing to say.
async fn server(answer: &'static [u8]) -> (SocketAddr, JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let mut held = vec![];
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut asked = [0; 1024];
            let read = stream.read(&mut asked).await.unwrap_or(0);
            if read > 0 && !answer.is_empty() {
                // Who asks may have heard enough.
                drop(stream.write_all(answer).await);
            } else {
                held.push(stream);
            }
        }
    });
    (address, tasks)
}

async fn asked(answer: &'static [u8]) -> Result<(), String> {
    let (address, _server) = server(answer).await;
    let probe = Probe::Http(format!("http://{address}/health?deep=1"));
    let answer = ask(&probe, LONG, &NoExec).await;
    answer.map_err(|why| why.replace(&address.to_string(), "HOST"))
}

#[tokio::test]
async fn a_status_from_200_to_399_is_healthy_and_nothing_else_is() {
    let good = |answer| async move { assert_eq!(asked(answer).await, Ok(())) };
    good(b"HTTP/1.1 200 OK\r\n\r\n").await;
    good(b"HTTP/1.0 204 \r\n").await;
    good(b"HTTP/1.1 399\n").await;
    let bad = |answer, why: &'static str| async move {
        let why = format!("http://HOST/health?deep=1 answered with {why}");
        assert_eq!(asked(answer).await, Err(why));
    };
    bad(b"HTTP/1.1 503 Unavailable\r\n\r\n", "status 503").await;
    bad(b"HTTP/1.1 199 x\r\n\r\n", "status 199").await;
    bad(b"HTTP/1.1 400 x\r\n\r\n", "status 400").await;
    bad(b"HTTP/1.1 2000 x\r\n\r\n", "no HTTP").await;
    bad(b"SSH-2.0-OpenSSH\r\n", "no HTTP").await;
    bad(b"HTTP/1.1 \xff\r\n", "no HTTP").await;
}

#[tokio::test]
async fn an_answer_is_not_read_for_ever() {
    // Far more than what is read, and no end of a line in it.
    let much = vec![b'a'; 1024 * 1024].leak();
    let (address, _server) = server(much).await;
    let probe = Probe::Http(format!("http://{address}/"));
    let why = ask(&probe, LONG, &NoExec).await.unwrap_err();
    assert!(why.contains("no HTTP"), "{why}");
}

#[tokio::test]
async fn no_answer_in_time_is_a_bad_one() {
    let (address, _server) = server(b"").await;
    let probe = Probe::Http(format!("http://{address}/"));
    let why = ask(&probe, Duration::from_millis(50), &NoExec).await;
    assert_eq!(
        why,
        Err(format!("http://{address}/ did not answer in time"))
    );
}

#[tokio::test]
async fn who_listens_is_healthy_and_who_does_not_is_named() {
    let (address, server) = server(b"").await;
    let probe = Probe::Tcp(address.to_string());
    assert_eq!(ask(&probe, LONG, &NoExec).await, Ok(()));
    drop(server);
    let refused = async {
        while ask(&probe, LONG, &NoExec).await.is_ok() {
            tokio::task::yield_now().await;
        }
        ask(&probe, LONG, &NoExec).await.unwrap_err()
    };
    let why = timeout(LONG, refused).await.unwrap();
    assert!(
        why.starts_with(&address.to_string()) && why.contains("refused"),
        "{why}"
    );
}

#[tokio::test]
async fn a_command_answers_by_how_it_ends() {
    let probe = |word: &str| Probe::Exec(vec![word.to_owned()]);
    assert_eq!(ask(&probe("good"), LONG, &NoExec).await, Ok(()));
    assert!(ask(&probe("bad"), LONG, &NoExec).await.is_err());
}

#[test]
fn a_url_leads_to_an_address_and_a_path() {
    for (url, expected) in [
        (
            "http://127.0.0.1:8025/health",
            Some(("127.0.0.1:8025", "/health")),
        ),
        ("http://localhost", Some(("localhost:80", "/"))),
        ("http://[::1]", Some(("[::1]:80", "/"))),
        ("http://[::1]:8/?a=b#c", Some(("[::1]:8", "/?a=b"))),
        ("http://a?b", Some(("a:80", "/?b"))),
        ("https://a/", None),
        ("http://", None),
        ("http://user:word@a/", None),
        ("http://a/b c", None),
        ("http://a/b\r\nX: y", None),
    ] {
        let url = Url::of(url);
        let found = url
            .as_ref()
            .map(|url| (url.address.as_str(), url.path.as_str()));
        assert_eq!(found, expected, "{url:?}");
    }
}
