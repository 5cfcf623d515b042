//! A seat whose holder is lost goes to another module that can hold it, where that was asked for.
//!
//! A node is lost that was not heard for a while in which it could have been: while its bus is away, or this process was
//! stopped, nobody there is heard, and that says nothing about anybody.

use std::collections::BTreeMap;

use mesh_model::{Assigner, BusKind, ModuleName, NodeName, SeatName, SeatRecord, Timestamp};

use super::Controller;
use super::lane::{Origin, Request, audit};
use crate::effect::{Effect, Note};
use crate::failover::{could_work, holder, nodes_of, successor};
use crate::placement::Mint;
use crate::status::LOST_AFTER;

/// Since when whom nobody hears.
#[derive(Debug, Default)]
pub(super) struct Watch {
    /// Since when each bus is listened to without a gap.
    listening: BTreeMap<BusKind, Timestamp>,
    /// Of two buses, the one that cannot be reached.
    away: Option<BusKind>,
    /// When time was last said to have passed.
    looked: Timestamp,
    /// Holders of whose nodes none is heard any more, and since when that is so.
    gone: BTreeMap<SeatName, Gone>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Gone {
    holder: ModuleName,
    since: Timestamp,
    /// Why the seat could not be given to another, if that was tried.
    refused: Option<String>,
}

impl Watch {
    pub(super) fn begin(now: Timestamp) -> Self {
        Self {
            listening: BusKind::ALL.map(|bus| (bus, now)).into(),
            away: None,
            looked: now,
            gone: BTreeMap::new(),
        }
    }

    /// The bus, or of two all but this one, was reached, or was reached again. Said once more what was said before, one
    /// was away in between, and nobody knows which.
    pub(super) fn listens(&mut self, was_up: bool, away: Option<BusKind>, now: Timestamp) {
        for bus in BusKind::ALL {
            let again = !was_up || self.away == away || self.away == Some(bus);
            if again && away != Some(bus) {
                self.listening.insert(bus, now);
            }
        }
        self.away = away;
    }

    /// Since when a node on these buses could have been heard; nothing while it cannot be.
    fn could_hear(&self, buses: impl Iterator<Item = BusKind> + Clone) -> Option<Timestamp> {
        if buses.clone().any(|bus| self.away == Some(bus)) {
            return None;
        }
        let since = buses.filter_map(|bus| self.listening.get(&bus));
        Some(since.max().copied().unwrap_or_default())
    }
}

impl<M: Mint> Controller<M> {
    /// Seats whose holders were lost for as long as they may be are given to others.
    pub(super) fn look_at_seats(&mut self, now: Timestamp) {
        if now.since(self.watch.looked) >= STOPPED_FOR {
            self.watch.listens(false, self.watch.away, now);
        }
        self.watch.looked = now;
        if !self.link {
            self.watch.gone.clear();
            return;
        }
        self.watch.gone = self.gone(now);
        if !self.store_is_up() || !self.lane.is_empty() {
            return;
        }
        let gone = self.watch.gone.iter();
        let due = gone.filter(|(seat, gone)| self.is_due(seat, gone, now));
        let due = due.filter(|(seat, gone)| self.successor(seat, &gone.holder, now).is_some());
        let due: Vec<SeatName> = due.map(|(seat, _)| seat.clone()).collect();
        for seat in due {
            self.lane.push(Request::Failover(seat));
        }
    }

    /// Those of now; of whom was gone before it is known since when.
    fn gone(&self, now: Timestamp) -> BTreeMap<SeatName, Gone> {
        let seats = self.records.declared.seats.keys();
        let gone = seats.filter_map(|seat| {
            let holder = holder(&self.records, seat)?;
            let mut nodes = nodes_of(&self.records, holder);
            if nodes.any(|node| !self.is_lost(node, now)) {
                return None;
            }
            let before = self.watch.gone.get(seat);
            let gone = before.filter(|before| before.holder == *holder);
            let gone = gone.cloned().unwrap_or_else(|| Gone {
                holder: holder.clone(),
                since: now,
                refused: None,
            });
            Some((seat.clone(), gone))
        });
        gone.collect()
    }

    fn is_due(&self, seat: &SeatName, gone: &Gone, now: Timestamp) -> bool {
        let grace = self.grace(seat);
        grace.is_some_and(|grace| now.since(gone.since) >= grace)
    }

    /// For how long a seat's holder may be lost; nothing where that is an operator's to mend.
    fn grace(&self, seat: &SeatName) -> Option<u64> {
        self.records.declared.seats.get(seat)?.failover
    }

    /// Whether a node was not heard for so long that it is taken for lost.
    fn is_lost(&self, node: &NodeName, now: Timestamp) -> bool {
        let heard = self.presence.get(node).map(|presence| presence.heard);
        let record = self.records.nodes.get(node);
        let buses = BusKind::ALL.into_iter().filter(|bus| {
            record.is_none_or(|record| record.bus == *bus || record.moving.is_some())
        });
        let Some(listening) = self.watch.could_hear(buses) else {
            return false;
        };
        now.since(heard.unwrap_or_default().max(listening)) >= LOST_AFTER
    }

    /// Whether a node was heard lately.
    pub(crate) fn is_heard(&self, node: &NodeName, now: Timestamp) -> bool {
        let presence = self.presence.get(node);
        presence.is_some_and(|presence| now.since(presence.heard) < LOST_AFTER)
    }

    fn successor(
        &self,
        seat: &SeatName,
        holder: &ModuleName,
        now: Timestamp,
    ) -> Option<ModuleName> {
        let heard = |node: &NodeName| self.is_heard(node, now);
        successor(&self.records, seat, holder, heard).cloned()
    }

    /// Gives a seat to another, if that is still called for.
    pub(super) fn begin_failover(
        &mut self,
        seat: &SeatName,
        now: Timestamp,
        effects: &mut Vec<Effect>,
    ) {
        let gone = self.gone(now);
        let Some(gone) = gone.get(seat).filter(|gone| self.is_due(seat, gone, now)) else {
            return;
        };
        let Some(to) = self.successor(seat, &gone.holder, now) else {
            return;
        };
        let mut next = self.records.clone();
        let declared = next.declared.seats.get(seat);
        if declared.is_some_and(|spec| spec.holder.as_ref() == Some(&to)) {
            // As the files say it: nothing is overridden any more.
            next.seats.remove(seat);
        } else {
            let record = SeatRecord {
                assigned: Some(to.clone()),
                by: Assigner::Failover,
            };
            next.seats.insert(seat.clone(), record);
        }
        if let Err(why) = self.sound(&next) {
            let what = format!("seat {seat} does not go to {to}: {why}");
            if let Some(gone) = self.watch.gone.get_mut(seat) {
                // It is tried once more after another grace.
                gone.since = now;
                gone.refused = Some(what.clone());
            }
            effects.push(Effect::Note(Note::Seat(seat.clone(), what)));
            return;
        }
        next.revision = next.revision.next();
        let what = format!(
            "seat {seat} fails over from {} to {to}: {}",
            gone.holder,
            self.in_words(&gone.holder, gone.since, now)
        );
        let audit = audit(&next, now, "controller", &what);
        effects.push(Effect::Note(Note::Seat(seat.clone(), what)));
        self.store_change(Origin::Nobody, next, Some(audit), effects);
    }

    /// Why a holder is taken for lost.
    fn in_words(&self, holder: &ModuleName, since: Timestamp, now: Timestamp) -> String {
        let nodes: Vec<&str> = nodes_of(&self.records, holder)
            .map(NodeName::as_str)
            .collect();
        let lost = now.since(since).saturating_add(LOST_AFTER) / 1000;
        if nodes.is_empty() {
            return format!("{holder} is placed on no node");
        }
        format!(
            "none of its nodes was heard for {lost} s ({})",
            nodes.join(", ")
        )
    }

    /// What keeps a seat from being worked, and milliseconds until it goes to another: where its holder is lost.
    pub(crate) fn trouble(&self, seat: &SeatName, now: Timestamp) -> Option<(String, Option<u64>)> {
        let held = holder(&self.records, seat);
        let gone = self.watch.gone.get(seat);
        let gone = gone.filter(|gone| held == Some(&gone.holder))?;
        let why = self.in_words(&gone.holder, gone.since, now);
        let holder = &gone.holder;
        if let Some(refused) = &gone.refused {
            return Some((
                format!("its holder {holder} is lost: {why}; {refused}"),
                None,
            ));
        }
        let next = self.successor(seat, holder, now);
        let (what, after) = match (self.grace(seat), next) {
            (None, _) => (
                format!(
                    "it does not fail over; `meshctl seat handover {seat} --to MODULE` gives it to another"
                ),
                None,
            ),
            (Some(_), None) => (
                "nobody else that can hold it is on a node that is heard".to_owned(),
                None,
            ),
            (Some(grace), Some(next)) => {
                let left = grace.saturating_sub(now.since(gone.since));
                let what = format!("{next} takes it in {} s", left.div_ceil(1000));
                (what, Some(left))
            }
        };
        Some((format!("its holder {holder} is lost: {why}; {what}"), after))
    }

    /// Whether a module could work a seat now.
    pub(crate) fn could_work(&self, module: &ModuleName, now: Timestamp) -> bool {
        could_work(&self.records, module, |node| self.is_heard(node, now))
    }
}

/// For so long nobody said that time passes, while this process was stopped.
const STOPPED_FOR: u64 = 10_000;
