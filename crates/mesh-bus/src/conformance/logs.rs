//! Claims about what is said for now: what a node is asked, and what of logs it says.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use mesh_model::{ModuleName, NodeName, Timestamp};
use mesh_wire::{
    Ask, Asked, LogEnd, LogPart, LogSaid, SignedKind, decode_ask, decode_log_part, encode_ask,
    encode_log_part,
};
use tokio::task::JoinSet;

use super::bench::Bench;
use super::patience::{come, ensure, name, within};
use super::stand_ins::{signer, verifier};
use super::{Broken, World};
use crate::logs::{LogDesk, LogLines, LogSource, NoLog, Read, ReadEnd, Reading, answer_asks};
use crate::seam::{ControllerBus, NodeBus};
use crate::signing::Signer;

/// Logs of two lines each, that say whose they are; those that are followed do not end.
struct TwoLines(NodeName);

impl LogSource for TwoLines {
    async fn read(&self, module: &ModuleName, tail: u32, follow: bool) -> Result<LogLines, NoLog> {
        if module.as_str() == "nowhere" {
            return Err(NoLog::NotHere);
        }
        let first = format!("{module} on {}, {tail} lines", self.0).into_bytes();
        let lines = stream::iter([Ok(first), Ok(b"\x1b[1m\xff".to_vec())]);
        Ok(if follow {
            lines.chain(stream::pending()).boxed()
        } else {
            lines.boxed()
        })
    }
}

/// A node's log is read over the bus, byte for byte; read to its end it ends, and one that is not there is not. What a
/// node says in a reading of another's is not taken, nor is it answered who is not the controller.
pub async fn a_log_is_read_from_its_node_and_from_no_other(
    world: &impl World,
) -> Result<(), Broken> {
    let mut bench = Bench::open(world).await?;
    let (node, rogue) = (bench.node("a")?, bench.node("b")?);
    let mesh = bench.run().await?;
    let clock = mesh.world.clock();
    let hostile = mesh.world.node(&rogue).await?;
    let mut tasks = JoinSet::new();
    tasks.spawn(answer_asks(
        Arc::new(mesh.world.node(&node).await?),
        TwoLines(node.clone()),
        node.clone(),
        verifier(),
        clock,
    ));
    let bus = Arc::clone(&mesh.controller.bus);
    let desk = Arc::new(LogDesk::new(bus, signer(), clock, 1));
    let hears = Arc::clone(&desk);
    tasks.spawn(async move { hears.run(std::future::pending()).await });
    let read = |of: &NodeName, module: &str, follow| {
        let reading = desk.read(of.clone(), name(module)?, 7, follow);
        reading.map_err(|error| Broken(error.to_string()))
    };
    let mut whole = read(&node, "m", false)?;
    for expected in [&b"m on a, 7 lines"[..], b"\x1b[1m\xff"] {
        let line = LogSaid::Line {
            bytes: expected.to_vec(),
            cut: false,
        };
        expect(&mut whole, Read::Said(line)).await?;
    }
    expect(&mut whole, Read::End(ReadEnd::Said(LogEnd::Whole))).await?;
    let mut nowhere = read(&node, "nowhere", true)?;
    expect(&mut nowhere, Read::End(ReadEnd::Said(LogEnd::NotHere))).await?;

    // The other node is asked for its own, and knows the number of a reading then; of the first it can only guess.
    let mut followed = read(&node, "m", true)?;
    for _ in 0..2 {
        let line = come("a line", followed.next()).await?;
        let is_line = matches!(line, Some(Read::Said(_)));
        ensure(is_line, format!("instead of a line came {line:?}"))?;
    }
    let mut of_rogue = read(&rogue, "m", true)?;
    let asked = come("what the other node is asked", hostile.asked()).await?;
    let asked = verifier().open(SignedKind::Ask, &asked);
    let asked = asked.map_err(|error| Broken(error.to_string()))?;
    let own = decode_ask(&asked).map_err(|error| Broken(error.to_string()))?;
    ensure(own.node == rogue, "a node was asked what another is")?;
    for reading in [own.reading, own.reading.wrapping_add(1), 0] {
        hostile.say_log(forged(reading)).await?;
    }
    expect(&mut of_rogue, Read::Said(lie())).await?;
    let heard = within(QUIET, followed.next()).await;
    ensure(
        heard.is_none(),
        format!("in another node's reading was heard {heard:?}"),
    )?;
    Ok(())
}

/// A node answers nothing that the controller did not sign, that is asked of another node, that is of long ago, or that it
/// answered before.
pub async fn a_node_answers_only_what_the_controller_asks_of_it_now(
    world: &impl World,
) -> Result<(), Broken> {
    let mut bench = Bench::open(world).await?;
    let node = bench.node("a")?;
    let mesh = bench.run().await?;
    let clock = mesh.world.clock();
    let mut tasks = JoinSet::new();
    tasks.spawn(answer_asks(
        Arc::new(mesh.world.node(&node).await?),
        TwoLines(node.clone()),
        node.clone(),
        verifier(),
        clock,
    ));
    let bus = &mesh.controller.bus;
    let module: ModuleName = name("m")?;
    let asking = Asking { module };
    let mut first = 100;
    let listens = loop {
        // It may not listen yet.
        bus.ask(&node, asking.sealed(&node, clock(), first, &signer()))
            .await?;
        if let Some((_, body)) = within(AGAIN, bus.log()).await {
            break read(&body)?;
        }
        first += 1;
        ensure(first < 200, "the node does not answer")?;
    };
    ensure(listens.reading >= 100, "it answered what it was not asked")?;
    let (now, forger, other) = (clock(), Signer::new(|_| [7; 64]), name("b")?);
    let long_ago = Timestamp::from_millis(now.as_millis().saturating_sub(16 * 60_000));
    for body in [
        asking.sealed(&node, now, 1, &forger),
        asking.sealed(&other, now, 2, &signer()),
        asking.sealed(&node, long_ago, 3, &signer()),
        asking.sealed(&node, now, 4, &signer()),
        asking.sealed(&node, now, 4, &signer()),
        asking.sealed(&node, now, 5, &signer()),
    ] {
        bus.ask(&node, body).await?;
    }
    let mut ended = Vec::new();
    while !(ended.contains(&4) && ended.contains(&5)) {
        let (_, body) = come("what the node says", bus.log()).await?;
        let part = read(&body)?;
        let wrongly = (1..4).contains(&part.reading);
        ensure(!wrongly, format!("it answered ask {}", part.reading))?;
        ended.extend(part.end.map(|_| part.reading));
    }
    let again = within(AGAIN, bus.log()).await;
    ensure(again.is_none(), "it answered one ask twice")
}

/// Asks for the log of one module.
struct Asking {
    module: ModuleName,
}

impl Asking {
    fn sealed(&self, of: &NodeName, at: Timestamp, reading: u64, by: &Signer) -> Vec<u8> {
        let ask = Ask {
            node: of.clone(),
            at,
            reading,
            what: Asked::Log {
                module: self.module.clone(),
                tail: 1,
                follow: false,
                room: 1000,
            },
        };
        by.seal(SignedKind::Ask, &encode_ask(&ask))
    }
}

fn read(body: &[u8]) -> Result<LogPart, Broken> {
    decode_log_part(body).map_err(|error| Broken(error.to_string()))
}

async fn expect(reading: &mut Reading, expected: Read) -> Result<(), Broken> {
    let found = come("what is read next", reading.next()).await?;
    ensure(
        found.as_ref() == Some(&expected),
        format!("instead of {expected:?} was read {found:?}"),
    )
}

fn lie() -> LogSaid {
    LogSaid::Line {
        bytes: b"a lie".to_vec(),
        cut: false,
    }
}

/// What a node makes up.
fn forged(reading: u64) -> Vec<u8> {
    encode_log_part(&LogPart {
        reading,
        number: 1,
        cost: lie().cost(),
        said: vec![lie()],
        end: None,
    })
}

/// In so long whatever was said before is heard.
const QUIET: Duration = Duration::from_millis(500);
const AGAIN: Duration = Duration::from_secs(1);
