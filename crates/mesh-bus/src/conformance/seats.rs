//! Claims about seats that change hands while their work is done.

use std::collections::BTreeSet;
use std::time::Duration;

use mesh_control::Command;
use mesh_derive::subject;
use mesh_model::{NodeName, SeatName};

use super::bench::{Mesh, instance, manifest};
use super::modules::with_modules;
use super::patience::{broken, ensure, eventually, name, within};
use super::{Broken, World};
use crate::seam::{ControllerBus, Incoming, Listener, ModuleBus, ModuleSettlement, Source};

/// A seat is handed over while its holder has as much in hand as a bus lets out: the one before settles nothing of it any
/// more, and the next has all of it long before the ack wait. Handed back, the first goes on with the ear it has.
pub async fn a_seat_is_handed_over_under_load(world: &impl World) -> Result<(), Broken> {
    handed_over(world, false).await
}

/// The same where nobody holds it for a while in between.
pub async fn a_seat_given_up_with_work_in_hand_is_worked_by_the_next_at_once(
    world: &impl World,
) -> Result<(), Broken> {
    handed_over(world, true).await
}

async fn handed_over<W: World>(world: &W, given_up: bool) -> Result<(), Broken> {
    let desk = Desk::open(world).await?;
    let mut olds = desk.old.listen(Source::Seat(desk.seat.clone())).await?;
    let mut news = desk.new.listen(Source::Seat(desk.seat.clone())).await?;
    let sent: BTreeSet<String> = desk.send("w", WORK).await?;
    desk.assign(Some("old")).await?;
    let (done, mut held) = desk.at_work(&mut olds).await?;
    let terms = olds.terms();
    let before = *terms.borrow();
    if given_up {
        desk.assign(None).await?;
    }
    desk.assign(Some("new")).await?;
    let heard = async {
        let mut heard = BTreeSet::new();
        while heard.len() < sent.len() - done.len() {
            tokio::select! {
                // Polled, as a module does: what it hears now came before, and is not its own.
                work = olds.next() => held.push(work),
                work = news.next() => {
                    desk.done(&desk.new, &work).await?;
                    heard.insert(work.id);
                }
            }
        }
        Ok::<_, Broken>(heard)
    };
    let Some(heard) = within(LONG_BEFORE_THE_ACK_WAIT, heard).await else {
        return broken("what was in hand does not come to the next holder");
    };
    let heard = heard?;
    ensure(
        heard.is_disjoint(&done),
        "what the holder before had done came again",
    )?;
    ensure(
        *terms.borrow() > before,
        "the holder before is not told that its work is another's",
    )?;
    desk.are_anothers(&held).await?;
    desk.is_empty().await?;
    desk.assign(Some("old")).await?;
    desk.send("again", 1).await?;
    let Some(work) = within(SOON, olds.next()).await else {
        return broken("handed back, its work does not come without a restart");
    };
    ensure(work.id == "again-0", "other work came")?;
    desk.done(&desk.old, &work).await?;
    desk.is_empty().await
}

/// What waits for a seat is told, whoever holds it or nobody, and that it is worked.
pub async fn what_waits_for_a_seat_is_told(world: &impl World) -> Result<(), Broken> {
    let desk = Desk::open(world).await?;
    let bus = world.controller().await?;
    let waiting = async || -> Result<u64, Broken> {
        let all = bus.backlogs().await?;
        let backlog = all.get(&desk.seat).copied().unwrap_or_default();
        ensure(
            backlog.messages > 0 || backlog.oldest.is_none(),
            "nothing waits, and is old",
        )?;
        Ok(backlog.messages)
    };
    ensure(waiting().await? == 0, "work nobody sent waits")?;
    desk.send("w", 3).await?;
    eventually("all that was sent is told", async || {
        Ok(waiting().await? == 3)
    })
    .await?;
    let mut ear = desk.old.listen(Source::Seat(desk.seat.clone())).await?;
    desk.assign(Some("old")).await?;
    let Some(work) = within(SOON, ear.next()).await else {
        return broken("the holder's work does not come");
    };
    eventually("what is out is told as well", async || {
        Ok(waiting().await? == 3)
    })
    .await?;
    desk.done(&desk.old, &work).await?;
    eventually("what is done is not told any more", async || {
        Ok(waiting().await? == 2)
    })
    .await
}

type Work<W> = Incoming<<<W as World>::Module as ModuleBus>::Receipt>;

/// A seat two modules can hold, and one that sends to it.
struct Desk<'w, W: World> {
    mesh: Mesh<'w, W>,
    seat: SeatName,
    old: W::Module,
    new: W::Module,
    sender: W::Module,
}

impl<'w, W: World> Desk<'w, W> {
    async fn open(world: &'w W) -> Result<Self, Broken> {
        let seat: SeatName = name("desk")?;
        let (mut old, mut new) = (manifest("old")?, manifest("new")?);
        old.can_hold = [seat.clone()].into();
        new.can_hold = [seat.clone()].into();
        let mut sender = manifest("sender")?;
        sender.sends_to = [seat.clone()].into();
        let (mesh, node): (_, NodeName) =
            with_modules(world, [old, new, sender], &["desk"]).await?;
        Ok(Self {
            old: world.module(&instance("old", &node)?).await?,
            new: world.module(&instance("new", &node)?).await?,
            sender: world.module(&instance("sender", &node)?).await?,
            mesh,
            seat,
        })
    }

    async fn assign(&self, holder: Option<&str>) -> Result<(), Broken> {
        let holder = holder.map(name).transpose()?;
        let seat = self.seat.clone();
        self.mesh.command(Command::Assign { seat, holder }).await
    }

    async fn send(&self, what: &str, many: usize) -> Result<BTreeSet<String>, Broken> {
        let mut sent = BTreeSet::new();
        for nth in 0..many {
            let id = format!("{what}-{nth}");
            self.sender.send(&self.seat, &id, Vec::new()).await?;
            sent.insert(id);
        }
        Ok(sent)
    }

    async fn done(&self, module: &W::Module, work: &Work<W>) -> Result<(), Broken> {
        Ok(module.settle(&work.receipt, ModuleSettlement::Done).await?)
    }

    /// The first holder works, and keeps in hand what it does not settle.
    async fn at_work(
        &self,
        ear: &mut <W::Module as ModuleBus>::Listener,
    ) -> Result<(BTreeSet<String>, Vec<Work<W>>), Broken> {
        let (mut done, mut held) = (BTreeSet::new(), Vec::new());
        while done.len() < SETTLED || held.len() < IN_HAND {
            let Some(work) = within(SOON, ear.next()).await else {
                return broken("the holder's work does not come");
            };
            if done.len() < SETTLED {
                self.done(&self.old, &work).await?;
                done.insert(work.id);
            } else {
                held.push(work);
            }
        }
        Ok((done, held))
    }

    /// The first holder may settle none of these.
    async fn are_anothers(&self, held: &[Work<W>]) -> Result<(), Broken> {
        for work in held {
            let settled = self.old.settle(&work.receipt, ModuleSettlement::Done).await;
            ensure(
                settled.is_err(),
                format!("{} was settled by who no longer holds the seat", work.id),
            )?;
        }
        Ok(())
    }

    async fn is_empty(&self) -> Result<(), Broken> {
        let stream = subject::seat_stream(&self.seat);
        eventually("all work is done", async || {
            Ok(self.mesh.world.stored(&stream).await? == 0)
        })
        .await
    }
}

/// More than any bus lets out to one reader.
const WORK: usize = 150;
/// What the first holder does, and what it then keeps in hand: no more than every bus lets out.
const SETTLED: usize = 5;
const IN_HAND: usize = 6;
/// Longer than an ear waits before it tries again whether it may listen.
const SOON: Duration = Duration::from_secs(15);
/// The ack wait is 60 s.
const LONG_BEFORE_THE_ACK_WAIT: Duration = Duration::from_secs(25);
