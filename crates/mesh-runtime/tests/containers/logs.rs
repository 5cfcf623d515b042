//! What containers said: followed from one start to the next and from one container to the next.

use std::sync::{Arc, Mutex};
use std::time::{Duration, UNIX_EPOCH};

use mesh_runtime::{Logs, Tail};
use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::engine::{Engine, Quirk, World, message};
use crate::host::{Host, until, wants};
use crate::http::{Request, answer, begin};

const DEADLINE: Duration = Duration::from_secs(10);
/// When the hosts here look at their clocks, in seconds.
const NOW: u64 = 1_795_000_000;

/// Answers with the log of a container; where it is followed, until that ends.
pub(crate) async fn serve(
    mut stream: UnixStream,
    request: &Request,
    world: &Arc<Mutex<World>>,
    changed: &watch::Sender<u64>,
) -> std::io::Result<()> {
    let key = request.path.split('/').nth(2).unwrap().to_owned();
    let asks = |name: &str| request.asked(name) == Some("true");
    let since: u64 = request.asked("since").map_or(0, |it| it.parse().unwrap());
    let look = || {
        let mut world = world.lock().unwrap();
        let state = world.made(&key).map(|made| made.state)?;
        let of = |(id, at, text): &(String, u64, String)| {
            (*id == key && *at >= since).then(|| (*at, text.clone()))
        };
        let said: Vec<_> = world.said.iter().filter_map(of).collect();
        Some((said, matches!(state, "running" | "paused")))
    };
    let mut changes = changed.subscribe();
    let Some((said, _)) = look() else {
        return answer(&mut stream, 404, &message("No such container: x")).await;
    };
    let last = request.asked("tail").and_then(|it| it.parse().ok());
    let mut at = said.len().saturating_sub(last.unwrap_or(usize::MAX));
    begin(&mut stream).await?;
    while let Some((said, runs)) = look() {
        for (time, text) in said.get(at..).unwrap_or_default() {
            let time = humantime::format_rfc3339_nanos(UNIX_EPOCH + Duration::from_secs(*time));
            let stamp = asks("timestamps").then(|| format!("{time} "));
            let text = format!("{}{text}\n", stamp.unwrap_or_default());
            let length = u32::try_from(text.len()).unwrap().to_be_bytes();
            let head = [&[1, 0, 0, 0][..], &length].concat();
            stream.write_all(&[&head, text.as_bytes()].concat()).await?;
        }
        at = said.len();
        if !runs || !asks("follow") || changes.changed().await.is_err() {
            break;
        }
    }
    Ok(())
}

fn says(engine: &Engine, id: &str, at: u64, text: &str) {
    engine.change(|world| world.said.push((id.to_owned(), at, text.to_owned())));
}

async fn follow(host: &Host, lines: usize) -> Logs {
    let tail = Tail {
        lines,
        follow: true,
    };
    let module = "m".parse().unwrap();
    host.runtime.logs(&module, tail).await.unwrap()
}

async fn next(logs: &mut Logs) -> Option<String> {
    let line = timeout(DEADLINE, logs.next())
        .await
        .expect("a line in time");
    line.map(|line| String::from_utf8(line.unwrap().bytes).unwrap())
}

async fn expect(logs: &mut Logs, lines: &[&str]) {
    for line in lines {
        assert_eq!(next(logs).await.as_deref(), Some(*line));
    }
}

/// What ends is started again.
async fn restarts(engine: &Engine, id: &str) {
    let starts = || engine.of("m").iter().map(|it| it.starts).sum::<u32>();
    let before = starts();
    engine.change(|world| world.end(id, 1));
    until("it is started again", || starts() > before).await;
}

#[tokio::test]
async fn a_log_is_followed_across_restarts_and_releases_until_its_module_is_gone() {
    let engine = Engine::start();
    engine.delivers("shop:1", vec![]);
    let host = Host::open(&engine).await;
    host.apply([wants("m", "1", "shop:1")]).await;
    host.runs("m").await;
    let first = engine.only("m").id;
    says(&engine, &first, NOW - 9, "left out");
    says(&engine, &first, NOW - 8, "last");
    let mut logs = follow(&host, 1).await;
    expect(&mut logs, &["last"]).await;
    // Its engine may tell times by the second only: what is said in one is not said twice, and not left out.
    says(&engine, &first, NOW + 1, "a");
    says(&engine, &first, NOW + 1, "b");
    expect(&mut logs, &["a", "b"]).await;
    engine.change(|world| {
        world.end(&first, 1);
        world
            .said
            .push((first.clone(), NOW + 1, "at its end".to_owned()));
    });
    expect(&mut logs, &["at its end"]).await;
    host.until("m", |it| it.restarts == 1).await;
    says(&engine, &first, NOW + 1, "again");
    says(&engine, &first, NOW + 2, "and on");
    expect(&mut logs, &["again", "and on"]).await;
    // The next one is read from its beginning.
    host.apply([wants("m", "2", "shop:1")]).await;
    until("only the second is there", || {
        engine.of("m").len() == 1 && engine.only("m").id != first
    })
    .await;
    let second = engine.only("m").id;
    for text in ["one", "two", "three"] {
        says(&engine, &second, NOW + 3, text);
    }
    expect(&mut logs, &["one", "two", "three"]).await;
    host.apply([]).await;
    assert_eq!(next(&mut logs).await, None);
}

#[tokio::test]
async fn what_was_said_before_it_is_listened_to_is_not_said_after_a_restart() {
    let engine = Engine::start();
    engine.delivers("shop:1", vec![]);
    let host = Host::open(&engine).await;
    host.apply([wants("m", "1", "shop:1")]).await;
    host.runs("m").await;
    let id = engine.only("m").id;
    says(&engine, &id, NOW - 9, "before");
    let mut logs = follow(&host, 0).await;
    until("it is read", || engine.asked("/logs") == 1).await;
    restarts(&engine, &id).await;
    says(&engine, &id, NOW + 1, "after");
    expect(&mut logs, &["after"]).await;
}

#[tokio::test]
async fn that_a_log_cannot_be_read_further_is_no_line_of_it() {
    let engine = Engine::start();
    engine.delivers("shop:1", vec![]);
    let host = Host::open(&engine).await;
    host.apply([wants("m", "1", "shop:1")]).await;
    host.runs("m").await;
    let refused = Quirk::Refuse(500, "logs are kept elsewhere");
    engine.quirk("GET", "/logs", refused, u32::MAX);
    for follow in [false, true] {
        let tail = Tail { lines: 9, follow };
        let module = "m".parse().unwrap();
        let mut logs = host.runtime.logs(&module, tail).await.unwrap();
        let broken = timeout(DEADLINE, logs.next()).await.unwrap().unwrap();
        let why = broken.unwrap_err().to_string();
        assert!(why.starts_with("the log cannot be read further: "), "{why}");
        assert!(why.contains("logs are kept elsewhere"), "{why}");
        assert_eq!(next(&mut logs).await, None);
    }
}
