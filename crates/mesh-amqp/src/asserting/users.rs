//! Users and what they may do: taken away before it is given, and from connections that are there as well.

use std::collections::{BTreeMap, BTreeSet};

use mesh_bus::{BusError, Readers, hand_over};
use mesh_derive::topology::{NOTHING, Queue, Rights, Topology};
use mesh_derive::{Plan, subject};
use mesh_model::{BusFacts, ConsumerRef, Principal};
use serde_json::{Value, json};

use super::{Asserting, Memory};
use crate::definitions::{Document, Names, Part, difference, set, with_permissions};

impl Asserting<'_> {
    /// Brings the users to a topology. Who loses something is marked until his connections have ended: a connection goes
    /// on doing what it began, and a controller that comes after this one must see whose may still be there.
    pub(super) async fn bring_users(
        &mut self,
        topology: &Topology,
        wanted: &Document,
        memory: &mut Memory,
        names: &Names,
    ) -> Result<(), BusError> {
        let (mut less, mut more) = (BTreeMap::new(), BTreeMap::new());
        let mut users: BTreeSet<String> = BTreeSet::new();
        for (kind, identity, _) in wanted.beyond(&self.found) {
            if kind >= Part::Users {
                users.extend(identity.first().cloned());
            }
        }
        users.extend(self.with_rows_too_many(wanted));
        for user in users {
            let mut all = wanted.of_user(&user);
            self.close_what_is_left(wanted, &user, &mut all);
            if self.loses(topology, wanted, &user, memory, names) {
                less.insert(user, all);
            } else {
                more.insert(user, all);
            }
        }
        let mut all = Document::default();
        for (user, rows) in less {
            if names.controller.as_ref() == Some(&user) {
                self.write(&rows).await?;
            } else {
                self.write(&rows.tagged(CLOSING)).await?;
                self.epoch.disconnect(&user).await?;
            }
            all.extend(rows);
            self.done.written.push(format!("user {user}: changed"));
        }
        self.remove_users(wanted, names).await?;
        self.remove_guests(names).await?;
        for (user, rows) in more {
            all.extend(rows);
            self.done
                .written
                .push(format!("user {user}: made, or may do more"));
        }
        self.write(&all).await?;
        self.found.extend(all);
        memory.rights.clone_from(&topology.users);
        Ok(())
    }

    /// What the users are brought to first, where seats change hands: a broker takes in one user after the other, and one
    /// that loses a seat may be about to get another's.
    pub(super) fn withdrawn(&self, wanted: &Document, memory: &Memory) -> Option<Plan> {
        let names = self.epoch.names();
        let readers = |consumer: &ConsumerRef| {
            let seat = subject::seat_of(consumer.stream()).map(Queue::Seat);
            let reads = |(who, rights): &(&Principal, &Rights)| {
                let user = names.of(who).unwrap_or_default();
                let before = memory.rights.get(*who);
                let retiring = self.retiring.get(*who);
                let own = [user];
                let found = self.found.get(Part::Users, &own);
                let stays = found.zip(wanted.get(Part::Users, &own));
                let stays = stays.is_some_and(|(found, wanted)| is_still(wanted, found, retiring));
                let row = self.found.get(Part::Permissions, &own);
                seat.as_ref()
                    .is_some_and(|seat| stays && is_known_to_read(row, rights, before, seat))
            };
            let known = self.topology.users.iter().filter(reads);
            Readers {
                known: known.map(|(who, _)| who.clone()).collect(),
                // A connection may go on with what no row lets anybody begin.
                others: true,
            }
        };
        hand_over(self.plan, &BusFacts::default(), readers).first
    }

    /// Users the broker has a topic permission of that is not derived, and allows something.
    fn with_rows_too_many(&self, wanted: &Document) -> Vec<String> {
        let rows = self.found.all(Part::TopicPermissions);
        let too_many = rows.filter(|(identity, row)| {
            wanted.get(Part::TopicPermissions, identity).is_none() && !is_closed(row)
        });
        let users = too_many.filter_map(|(identity, _)| identity.first().cloned());
        users
            .filter(|user| {
                wanted
                    .get(Part::Users, std::slice::from_ref(user))
                    .is_some()
            })
            .collect()
    }

    /// A row too many is closed and not removed: where there is none, a broker lets every key pass.
    fn close_what_is_left(&self, wanted: &Document, user: &str, rows: &mut Document) {
        for (identity, row) in self.found.all(Part::TopicPermissions) {
            let left = identity.first().is_some_and(|of| of == user)
                && wanted.get(Part::TopicPermissions, identity).is_none()
                && !is_closed(row);
            if left {
                let mut closed = row.clone();
                set(&mut closed, "write", json!(NOTHING));
                set(&mut closed, "read", json!(NOTHING));
                rows.add(Part::TopicPermissions, closed);
            }
        }
    }

    /// Whether a user that is there may do less from now on, or must log in anew. Where it is not known what it could do
    /// before, it may.
    fn loses(
        &self,
        topology: &Topology,
        wanted: &Document,
        user: &str,
        memory: &Memory,
        names: &Names,
    ) -> bool {
        let own = [user.to_owned()];
        let Some(there) = self.found.get(Part::Users, &own) else {
            return false;
        };
        let who = names.whose(user);
        let retiring = who.as_ref().and_then(|who| self.retiring.get(who));
        let kept = wanted
            .get(Part::Users, &own)
            .is_some_and(|wanted| is_still(wanted, there, retiring));
        let rights = who.and_then(|who| {
            let before = memory.rights.get(&who)?;
            Some((before, topology.users.get(&who)?))
        });
        let grows = rights.is_some_and(|(before, now)| is_within(before, now));
        let had_none = self.found.get(Part::Permissions, &own).is_none();
        !(kept && (grows || had_none))
    }

    /// Users of the mesh's that are no longer derived: one that has something on another virtual host only loses this.
    async fn remove_users(&mut self, wanted: &Document, names: &Names) -> Result<(), BusError> {
        let users = with_permissions(&self.found).into_iter();
        let gone: Vec<String> = users
            .filter(|user| {
                let of_mesh = names
                    .whose(user)
                    .is_some_and(|who| who != Principal::Controller);
                of_mesh && wanted.get(Part::Users, &[(*user).to_owned()]).is_none()
            })
            .map(str::to_owned)
            .collect();
        for user in gone {
            self.epoch.remove(&user).await?;
            self.found.forget_user(&user);
            self.done.written.push(format!("user {user}: removed"));
        }
        Ok(())
    }

    /// Whom a proof let in that nobody waits for any more: its controller was killed.
    async fn remove_guests(&mut self, names: &Names) -> Result<(), BusError> {
        let guests = self.epoch.guests();
        let users = self.found.all(Part::Users);
        let users = users.filter_map(|(identity, _)| identity.first().cloned());
        let left: Vec<String> = users
            .filter(|user| guests.is_left_behind(&names.users, user))
            .collect();
        for user in left {
            self.epoch.remove(&user).await?;
            self.found.forget_user(&user);
            self.done.written.push(format!("user {user}: removed"));
        }
        Ok(())
    }
}

/// Whether somebody is known to read a queue now, so that he need not begin to: by a row that is as it is to be, or as it was
/// asserted last.
fn is_known_to_read(
    row: Option<&Value>,
    rights: &Rights,
    before: Option<&Rights>,
    queue: &Queue,
) -> bool {
    let reads = row.and_then(|row| row.get("read")).and_then(Value::as_str);
    let by =
        |rights: &Rights| rights.read.contains(queue) && reads == Some(&*rights.read_pattern());
    by(rights) || before.is_some_and(by)
}

/// The tag of a user that has lost something and may still be connected.
const CLOSING: &str = "mesh-closing";

pub(crate) fn is_closed(row: &Value) -> bool {
    let pattern = |field| row.get(field).and_then(Value::as_str);
    pattern("write") == Some(NOTHING) && pattern("read") == Some(NOTHING)
}

/// Whether who is there may go on: nothing differs, or a password alone that was replaced a while ago.
fn is_still(wanted: &Value, there: &Value, retiring: Option<&String>) -> bool {
    let mut there = there.clone();
    let hash = there.get("password_hash").and_then(Value::as_str);
    if retiring.is_some_and(|retiring| hash == Some(retiring))
        && let Some(new) = wanted.get("password_hash")
    {
        set(&mut there, "password_hash", new.clone());
    }
    difference(wanted, &there).is_none()
}

/// Whether all of one authority is in another.
fn is_within(before: &Rights, now: &Rights) -> bool {
    let keys = before.keys.iter().all(|(exchange, keys)| {
        let now = now.keys.get(exchange);
        keys.is_empty() || now.is_some_and(|now| keys.is_subset(now))
    });
    let reads = before.read.is_subset(&now.read) && before.read_all.is_subset(&now.read_all);
    keys && reads && before.write.is_subset(&now.write)
}

#[cfg(test)]
mod tests {
    use mesh_derive::topology::{Exchange, Key, Queue, QueueClass};

    use super::*;

    #[test]
    fn who_has_the_password_before_goes_on_while_that_is_good() {
        let user = |hash: &str, tags: &str| json!({"password_hash": hash, "tags": tags});
        let old = "old".to_owned();
        for (there, retiring, stays) in [
            (user("new", ""), None, true),
            (user("old", ""), None, false),
            (user("old", ""), Some(&old), true),
            (user("older", ""), Some(&old), false),
            (user("old", "administrator"), Some(&old), false),
        ] {
            assert_eq!(
                is_still(&user("new", ""), &there, retiring),
                stays,
                "{there}"
            );
        }
    }

    #[test]
    fn who_reads_a_seat_is_known_by_rows_that_somebody_derived() {
        let (desk, mail) = ("desk".parse().unwrap(), "mail".parse().unwrap());
        let reading = |queues: &[Queue]| Rights {
            read: queues.iter().cloned().collect(),
            ..Rights::default()
        };
        let desk = Queue::Seat(desk);
        let (one, both) = (
            reading(std::slice::from_ref(&desk)),
            reading(&[desk.clone(), Queue::Seat(mail)]),
        );
        let row = |rights: &Rights| Some(json!({ "read": rights.read_pattern() }));
        for (found, wanted, before, known) in [
            (row(&one), &one, None, true),
            (row(&one), &both, Some(&one), true),
            // After a restart nobody knows what that row was for.
            (row(&one), &both, None, false),
            (row(&reading(&[])), &one, None, false),
            (Some(json!({ "read": ".*" })), &one, Some(&one), false),
            (None, &one, Some(&one), false),
        ] {
            let is = is_known_to_read(found.as_ref(), wanted, before, &desk);
            assert_eq!(is, known, "{found:?} {wanted:?} {before:?}");
        }
    }

    #[test]
    fn authority_that_only_grows_is_told_from_one_that_loses_something() {
        let seat = Queue::Seat("desk".parse().unwrap());
        let said = Key::Is("m.said".to_owned());
        let some = Rights {
            write: [Exchange::Events].into(),
            keys: [(Exchange::Events, [said].into())].into(),
            ..Rights::default()
        };
        let mut more = some.clone();
        more.read.insert(seat);
        let mut all = more.clone();
        all.read_all.insert(QueueClass::Seat);
        let mut other = some.clone();
        other
            .keys
            .insert(Exchange::Events, [Key::Is("m.else".to_owned())].into());
        let nothing = Rights::default();
        for (before, now, grows) in [
            (&some, &some, true),
            (&some, &more, true),
            (&more, &some, false),
            (&more, &all, true),
            (&all, &more, false),
            (&some, &other, false),
            (&nothing, &some, true),
            (&some, &nothing, false),
        ] {
            assert_eq!(is_within(before, now), grows, "{before:?} {now:?}");
        }
    }
}
