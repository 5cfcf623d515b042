//! Users, and with them who works which seat: withdrawn from one before it is granted to another, and what the one had in
//! hand given back in between.

use std::collections::BTreeSet;

use mesh_bus::BusError;
use mesh_derive::subject;
use mesh_model::ConsumerRef;

use super::Asserting;
use crate::definition::{consumer_fields, overlaid};
use crate::memory::Memory;

impl Asserting<'_> {
    /// Brings the users to the plan. A server reads a file of users as a whole, one connection after the other, so where a
    /// seat changes hands it reads two.
    pub(super) async fn bring_users(&mut self, memory: &mut Memory) -> Result<(), BusError> {
        let steps = self
            .authority
            .hand_over(self.plan, &self.facts, &memory.loaded)
            .await?;
        if let Some(first) = &steps.first {
            let withdrawn = self.authority.bring_to(first, &mut memory.loaded).await?;
            let withdrawn = withdrawn.map(|users| format!("{users}, of which some give up seats"));
            self.done.written.extend(withdrawn);
        }
        let carried = memory.plan.as_ref().map(|before| &before.carried);
        let begins = |of: &&ConsumerRef| carried.is_none_or(|before| !before.contains(*of));
        let carried = self.plan.carried.iter().filter(begins);
        let seats = carried.filter(|of| subject::seat_of(of.stream()).is_some());
        let given: BTreeSet<ConsumerRef> = steps.given.iter().chain(seats).cloned().collect();
        for seat in given {
            self.give_back(&seat).await?;
        }
        let users = self.authority.bring_to(self.plan, &mut memory.loaded);
        self.done.written.extend(users.await?);
        Ok(())
    }

    /// What is out with whoever read a seat's consumer before comes to its next reader at once, and not only after the ack
    /// wait: until then a consumer that has as much out as it may would send nothing at all. It is made anew, which a work
    /// queue loses nothing by: what is not settled is still in its stream.
    async fn give_back(&mut self, seat: &ConsumerRef) -> Result<(), BusError> {
        let Some(spec) = self.plan.consumers.get(seat) else {
            return Ok(());
        };
        let found = match self.api.consumers(seat.stream()).await {
            Ok(found) => found,
            Err(error) if error.is_passing() => return Err(error),
            Err(error) => {
                self.refuse(error);
                return Ok(());
            }
        };
        let found = found.iter().find(|found| found.name == seat.name());
        let out = found.map_or(0, |found| found.num_ack_pending);
        if out == 0 {
            return Ok(());
        }
        let outcome = async {
            self.api.delete_consumer(seat).await?;
            let config = overlaid(&consumer_fields(spec), None);
            self.api.create_consumer(seat, config).await.map(drop)
        };
        let words = format!(
            "consumer {seat}: made anew, since {out} messages were out with whoever no longer holds the seat"
        );
        let outcome = outcome.await;
        self.note(words, outcome)
    }
}
