//! A log that is read from a node which does as it likes.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use mesh_bus::conformance::{World, signer, verifier};
use mesh_bus::loopback::LoopbackNode;
use mesh_bus::{LogDesk, NodeBus, Read, Reading};
use mesh_wire::{Asked, LogEnd, LogPart, LogSaid, SignedKind, decode_ask, encode_log_part};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::loops::{in_memory, start};
use crate::world::now;

/// When it was asked for a log.
type Begun = Arc<Mutex<Vec<Instant>>>;

fn line() -> LogSaid {
    LogSaid::Line {
        bytes: vec![b'x'; 16_000],
        cut: false,
    }
}

/// Fills whatever room it is given, and at once knows nothing of it any more.
async fn forgetful(bus: LoopbackNode, begun: Begun) {
    loop {
        let body = verifier().open(SignedKind::Ask, &bus.asked().await);
        let ask = decode_ask(&body.unwrap()).unwrap();
        let mut part = LogPart {
            reading: ask.reading,
            number: 0,
            cost: 0,
            said: vec![line()],
            end: None,
        };
        if let Asked::Log { room, .. } = ask.what {
            begun.lock().unwrap().push(Instant::now());
            while part.cost + line().cost() <= room {
                part.number += 1;
                part.cost += line().cost();
                bus.say_log(encode_log_part(&part)).await.unwrap();
            }
        }
        part.number += 1;
        (part.said, part.end) = (vec![], Some(LogEnd::Unknown));
        bus.say_log(encode_log_part(&part)).await.unwrap();
    }
}

/// The lines that come without waiting for more than a moment.
async fn lines(reading: &mut Reading) -> usize {
    let mut lines = 0;
    while let Ok(Some(read)) = timeout(Duration::from_millis(100), reading.next()).await {
        lines += usize::from(read == Read::Said(line()));
    }
    lines
}

#[tokio::test(start_paused = true)]
async fn a_node_that_forgets_what_it_is_read_is_given_room_only_as_it_is_read() {
    let (world, ledger) = in_memory();
    let mesh = start(world, ledger);
    mesh.settled().await;
    let begun = Begun::default();
    let mut tasks = JoinSet::new();
    let node = mesh.world.node(&mesh.node).await.unwrap();
    tasks.spawn(forgetful(node, Arc::clone(&begun)));
    let bus = Arc::new(mesh.world.bus.controller());
    let desk = Arc::new(LogDesk::new(bus, signer(), now, 1));
    let hears = Arc::clone(&desk);
    tasks.spawn(async move { hears.run(std::future::pending()).await });
    let room = 16;

    // Nobody reads.
    let mut reading = desk
        .read(mesh.node.clone(), "m".parse().unwrap(), 1, true)
        .unwrap();
    sleep(Duration::from_mins(10)).await;
    assert_eq!(begun.lock().unwrap().len(), 1);
    // Somebody reads as fast as he can.
    let mut all = 0;
    for _ in 0..1000 {
        all += lines(&mut reading).await;
    }
    let begun = begun.lock().unwrap().clone();
    assert!(begun.len() > 5 && all <= begun.len() * room);
    for two in begun.windows(2) {
        assert!(two[1] - two[0] >= Duration::from_secs(10), "{two:?}");
    }
}
