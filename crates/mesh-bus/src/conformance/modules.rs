//! Claims about what modules say to one another and to the controller.

use mesh_control::{Command, Settlement};
use mesh_derive::subject;
use mesh_model::{ConsumerRef, EventName, EventRef, NodeName, SeatName};
use mesh_wire::{Announcement, encode_announcement};

use super::bench::{Bench, Mesh, declared, instance, manifest};
use super::declarations::apply;
use super::patience::{broken, come, ensure, eventually, name, not_looked_at};
use super::{Broken, World};
use crate::seam::{BusError, Incoming, Listener, ModuleBus, ModuleSettlement, Source};

/// What a module says of itself reaches the controller, which settles it once, with the authority derived for it.
pub async fn an_announcement_is_heard_and_settled_once_under_its_derived_grant(
    world: &impl World,
) -> Result<(), Broken> {
    let (mesh, node) = with_an_announcement(world).await?;
    eventually("the announcement is heard", async || {
        Ok(mesh.status().await?.tally.announced == 1)
    })
    .await?;
    let consumer = events_consumer()?;
    eventually("the announcement is settled", async || {
        Ok(mesh.world.unsettled(&consumer).await? == 0)
    })
    .await?;
    let subject = subject::event(&announced("m")?);
    let keys = mesh.journal.keys(&subject);
    let [key] = keys.as_slice() else {
        return broken(format!("{} announcements were heard", keys.len()));
    };
    ensure(
        mesh.journal.taken_at(*key).len() == 1,
        "the announcement was delivered again",
    )?;
    let settlings = mesh.journal.settlings(*key);
    ensure(
        matches!(settlings.as_slice(), [(_, Settlement::Done)]),
        format!("it was settled so: {settlings:?}"),
    )?;
    let of = instance("m", &node)?;
    let known = mesh.look(move |core, _| core.announced().contains_key(&of));
    ensure(known.await?, "it was settled without being heard")
}

/// Without its authority to settle what comes from `EVENTS` the controller hears an announcement again and again: what
/// the claim before this one would not notice, it could not prove.
pub async fn without_its_events_ack_authority_the_controller_hears_an_announcement_again(
    world: &impl World,
) -> Result<(), Broken> {
    if !world.withhold_event_acks().await? {
        return not_looked_at();
    }
    let (mesh, _node) = with_an_announcement(world).await?;
    let subject = subject::event(&announced("m")?);
    eventually("the announcement is delivered again", async || {
        mesh.status().await?;
        let keys = mesh.journal.keys(&subject);
        Ok(keys
            .iter()
            .any(|key| mesh.journal.taken_at(*key).len() >= 2))
    })
    .await?;
    let unsettled = mesh.world.unsettled(&events_consumer()?).await?;
    ensure(unsettled == 1, "it was settled without authority")
}

/// An event reaches those who follow it, by its exact name, and nobody else.
pub async fn events_reach_their_followers_only(world: &impl World) -> Result<(), Broken> {
    let (placed, said): (EventName, EventName) = (name("order.placed")?, name("said")?);
    let mut shop = manifest("shop")?;
    shop.emits = [placed.clone(), said.clone()].into();
    let (mut mailer, mut clerk) = (manifest("mailer")?, manifest("clerk")?);
    mailer.follows = [name("shop.order.placed")?].into();
    clerk.follows = [name("shop.said")?].into();
    let (mesh, node) = with_modules(world, [shop, mailer, clerk], &[]).await?;
    let world = mesh.world;
    let shop = world.module(&instance("shop", &node)?).await?;
    let mailer = world.module(&instance("mailer", &node)?).await?;
    let clerk = world.module(&instance("clerk", &node)?).await?;
    let mut to_mailer = mailer.listen(Source::Followed).await?;
    let mut to_clerk = clerk.listen(Source::Followed).await?;
    shop.emit(&placed, "1", b"one".to_vec()).await?;
    shop.emit(&said, "2", b"two".to_vec()).await?;
    shop.emit(&placed, "3", b"three".to_vec()).await?;
    // The first thing each hears, and the next: what it does not follow would have come between.
    for (body, id) in [("one", "1"), ("three", "3")] {
        let heard = next(&mut to_mailer).await?;
        ensure(
            heard.body == body.as_bytes(),
            "the follower heard something else",
        )?;
        ensure(heard.id == id, "the event came under another id")?;
        mailer
            .settle(&heard.receipt, ModuleSettlement::Done)
            .await?;
    }
    let heard = next(&mut to_clerk).await?;
    let event: EventRef = name("shop.said")?;
    ensure(
        heard.subject == subject::event(&event),
        "not what it follows",
    )?;
    clerk.settle(&heard.receipt, ModuleSettlement::Done).await?;
    let mailers = ConsumerRef::new(subject::events_stream(), "mailer")
        .map_err(|error| Broken(error.to_string()))?;
    eventually("the follower has settled everything", async || {
        Ok(world.unsettled(&mailers).await? == 0)
    })
    .await
}

/// Two modules may call messages by the same id: neither silences the other.
pub async fn one_modules_message_id_does_not_silence_anothers(
    world: &impl World,
) -> Result<(), Broken> {
    let said: EventName = name("said")?;
    let (mut one, mut two, mut hears) = (manifest("one")?, manifest("two")?, manifest("hears")?);
    one.emits = [said.clone()].into();
    two.emits = [said.clone()].into();
    hears.follows = [name("one.said")?, name("two.said")?].into();
    let (mesh, node) = with_modules(world, [one, two, hears], &[]).await?;
    let hears = mesh.world.module(&instance("hears", &node)?).await?;
    let mut ear = hears.listen(Source::Followed).await?;
    for sender in ["one", "two"] {
        let sender = mesh.world.module(&instance(sender, &node)?).await?;
        sender.emit(&said, "1", b"here".to_vec()).await?;
        // Said again under its id, as after an answer that was lost: it is one message.
        sender.emit(&said, "1", b"here".to_vec()).await?;
    }
    for sender in ["one.said", "two.said"] {
        let heard = next(&mut ear).await?;
        let event: EventRef = name(sender)?;
        let expected = subject::event(&event);
        ensure(
            heard.subject == expected,
            format!("heard {} where {expected} was due", heard.subject),
        )?;
        hears.settle(&heard.receipt, ModuleSettlement::Done).await?;
    }
    Ok(())
}

/// What a grant does not allow is refused, and the sender hears that it was.
pub async fn what_no_grant_allows_is_refused(world: &impl World) -> Result<(), Broken> {
    let mut other = manifest("other")?;
    other.emits = [name("said")?].into();
    let (mesh, node) = with_modules(world, [manifest("m")?, other], &["desk"]).await?;
    let module = mesh.world.module(&instance("m", &node)?).await?;
    let said: EventName = name("said")?;
    let emitted = module.emit(&said, "1", Vec::new()).await;
    ensure(
        matches!(emitted, Err(BusError::Refused { .. })),
        format!("an event it does not list: {emitted:?}"),
    )?;
    let seat: SeatName = name("desk")?;
    let sent = module.send(&seat, "2", Vec::new()).await;
    ensure(
        matches!(sent, Err(BusError::Refused { .. })),
        format!("work for a seat it does not list: {sent:?}"),
    )
}

/// A seat's work waits from its registration on, whoever holds it or nobody, and reaches who holds it now.
pub async fn seat_work_sent_before_there_is_a_holder_is_worked_after_assignment(
    world: &impl World,
) -> Result<(), Broken> {
    let seat: SeatName = name("desk")?;
    let (mut sender, mut worker) = (manifest("sender")?, manifest("worker")?);
    sender.sends_to = [seat.clone()].into();
    worker.can_hold = [seat.clone()].into();
    let (mesh, node) = with_modules(world, [sender, worker], &["desk"]).await?;
    let sender = mesh.world.module(&instance("sender", &node)?).await?;
    sender.send(&seat, "w1", b"work".to_vec()).await?;
    let stream = subject::seat_stream(&seat);
    ensure(
        mesh.world.stored(&stream).await? == 1,
        "the work was not kept",
    )?;
    let worker = mesh.world.module(&instance("worker", &node)?).await?;
    let mut ear = worker.listen(Source::Seat(seat.clone())).await?;
    mesh.command(Command::Assign {
        seat: seat.clone(),
        holder: Some(name("worker")?),
    })
    .await?;
    let work = next(&mut ear).await?;
    ensure(work.body == b"work" && work.id == "w1", "other work came")?;
    let from = name("sender")?;
    ensure(
        work.subject == subject::work(&seat, &from),
        "the subject does not say who sent it",
    )?;
    worker.settle(&work.receipt, ModuleSettlement::Done).await?;
    eventually("the work is done with", async || {
        Ok(mesh.world.stored(&stream).await? == 0)
    })
    .await
}

/// Work goes to who holds the seat and to nobody who held it before.
pub async fn a_module_that_gave_up_a_seat_gets_no_more_of_its_work(
    world: &impl World,
) -> Result<(), Broken> {
    let seat: SeatName = name("desk")?;
    let (mut old, mut new) = (manifest("old")?, manifest("new")?);
    old.can_hold = [seat.clone()].into();
    new.can_hold = [seat.clone()].into();
    let mut sender = manifest("sender")?;
    sender.sends_to = [seat.clone()].into();
    let (mesh, node) = with_modules(world, [old, new, sender], &["desk"]).await?;
    let sender = mesh.world.module(&instance("sender", &node)?).await?;
    let world = mesh.world;
    let old = world.module(&instance("old", &node)?).await?;
    let new = world.module(&instance("new", &node)?).await?;
    let mut olds = old.listen(Source::Seat(seat.clone())).await?;
    let mut news = new.listen(Source::Seat(seat.clone())).await?;
    for (holder, module) in [("old", &old), ("new", &new)] {
        mesh.command(Command::Assign {
            seat: seat.clone(),
            holder: Some(name(holder)?),
        })
        .await?;
        for work in 0..3 {
            let id = format!("{holder}-{work}");
            sender.send(&seat, &id, Vec::new()).await?;
            let (its, others) = if holder == "old" {
                (&mut olds, &mut news)
            } else {
                (&mut news, &mut olds)
            };
            let heard = tokio::select! {
                biased;
                _ = others.next() => return broken("who does not hold the seat got its work"),
                heard = next(its) => heard?,
            };
            ensure(
                heard.id == id,
                format!("{} came where {id} was due", heard.id),
            )?;
            module
                .settle(&heard.receipt, ModuleSettlement::Done)
                .await?;
        }
    }
    Ok(())
}

/// Work that is not done comes again, under the same id.
pub async fn work_put_off_comes_again(world: &impl World) -> Result<(), Broken> {
    let seat: SeatName = name("desk")?;
    let mut module = manifest("m")?;
    module.can_hold = [seat.clone()].into();
    module.sends_to = [seat.clone()].into();
    let (mesh, node) = with_modules(world, [module], &["desk"]).await?;
    mesh.command(Command::Assign {
        seat: seat.clone(),
        holder: Some(name("m")?),
    })
    .await?;
    let module = mesh.world.module(&instance("m", &node)?).await?;
    let mut ear = module.listen(Source::Seat(seat.clone())).await?;
    module.send(&seat, "w1", Vec::new()).await?;
    let first = next(&mut ear).await?;
    let soon = std::time::Duration::from_millis(50);
    module
        .settle(&first.receipt, ModuleSettlement::Again(soon))
        .await?;
    let again = next(&mut ear).await?;
    ensure(again.id == first.id, "it came again as another message")?;
    module
        .settle(&again.receipt, ModuleSettlement::Done)
        .await?;
    let stream = subject::seat_stream(&seat);
    eventually("the work is done with", async || {
        Ok(mesh.world.stored(&stream).await? == 0)
    })
    .await
}

async fn with_an_announcement<W: World>(world: &W) -> Result<(Mesh<'_, W>, NodeName), Broken> {
    let (mesh, node) = with_modules(world, [manifest("m")?], &[]).await?;
    let module = mesh.world.module(&instance("m", &node)?).await?;
    let body = encode_announcement(&Announcement {
        release: "1.0.0".to_owned(),
        node: node.clone(),
        instance: None,
        key: None,
    });
    module.emit(&EventName::announced(), "a1", body).await?;
    Ok((mesh, node))
}

/// Modules on one node, applied.
pub(super) async fn with_modules<'w, W: World>(
    world: &'w W,
    modules: impl IntoIterator<Item = mesh_model::Manifest>,
    seats: &[&str],
) -> Result<(Mesh<'w, W>, NodeName), Broken> {
    let mut bench = Bench::open(world).await?;
    let node = bench.node("a")?;
    let mesh = bench.run().await?;
    apply(&mesh, declared(modules, &node, seats)?).await?;
    Ok((mesh, node))
}

async fn next<L: Listener>(ear: &mut L) -> Result<Incoming<L::Receipt>, Broken> {
    come("a message for the module", ear.next()).await
}

fn announced(module: &str) -> Result<EventRef, Broken> {
    Ok(EventRef {
        module: name(module)?,
        event: EventName::announced(),
    })
}

fn events_consumer() -> Result<ConsumerRef, Broken> {
    ConsumerRef::new(subject::events_stream(), "controller")
        .map_err(|error| Broken(error.to_string()))
}
