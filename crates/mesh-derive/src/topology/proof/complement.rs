//! What is next to a user's rights: everybody else's, names and keys like its own, wildcards, the exchanges a broker brings
//! along, and whatever makes, unmakes or binds.

use std::collections::BTreeSet;

use mesh_model::Principal;

use super::{At, Attempt, Bond, addresses};
use crate::plan::Plan;
use crate::proof::others::{self, Namesakes};
use crate::proof::{Extent, WORD};
use crate::subject;
use crate::topology::{Exchange, ExchangeKind, Queue, Rights, Topology};

/// Attempts that are to be held against a user's rights, some of them within those.
pub(super) fn attempts(
    plan: &Plan,
    topology: &Topology,
    principal: &Principal,
    extent: Extent,
) -> BTreeSet<Attempt> {
    let Some(own) = topology.users.get(principal) else {
        return BTreeSet::new();
    };
    let around = Namesakes::of(principal);
    let others = others::principals(plan, around.as_ref(), extent);
    let seats = others::streams(plan, around.as_ref(), extent);
    let seats = seats
        .into_iter()
        .filter_map(|it| subject::seat_of(&it.name));
    let rights = others.iter().filter_map(|it| topology.users.get(*it));
    let mut queues: BTreeSet<Queue> = Queue::OF_CONTROLLER.into();
    queues.extend(rights.clone().flat_map(|it| it.read.iter().cloned()));
    queues.extend(seats.map(Queue::Seat));
    queues.extend(around.iter().flat_map(of_namesakes));
    let found = Near {
        own,
        theirs: rights.flat_map(addresses).collect(),
        queues,
    };
    let mut all: BTreeSet<Attempt> = found
        .publishing()
        .into_iter()
        .map(Attempt::Publish)
        .collect();
    all.extend(found.pretending(principal, &others));
    all.extend(found.reading());
    all.extend(found.configuring());
    all.extend(found.binding(topology));
    all
}

/// The queues of whatever could have the same name.
fn of_namesakes(around: &Namesakes) -> [Queue; 5] {
    [
        Queue::Ask(around.node.clone()),
        Queue::Node(around.node.clone()),
        Queue::Module(around.module.clone()),
        Queue::Seat(around.seat.clone()),
        Queue::Answer(around.token.clone()),
    ]
}

struct Near<'a> {
    own: &'a Rights,
    /// Where others publish.
    theirs: BTreeSet<At>,
    /// What others read, and perhaps itself.
    queues: BTreeSet<Queue>,
}

impl Near<'_> {
    fn publishing(&self) -> BTreeSet<At> {
        let own = addresses(self.own);
        let mut all = self.theirs.clone();
        for exchange in Exchange::ALL {
            // One's own keys, on every exchange.
            all.extend(own.iter().map(|at| At::of(exchange, at.key.clone())));
            let keys = ["", WORD, "#", "*", "\n"].map(str::to_owned);
            all.extend(keys.map(|key| At::of(exchange, key)));
        }
        for at in &own {
            let near = near(&at.key).into_iter();
            all.extend(near.map(|key| At {
                exchange: at.exchange.clone(),
                key,
            }));
            all.extend(near_exchanges(at));
        }
        let read = self.own.read.iter().chain(&self.queues);
        let by_name = read.map(Queue::name).chain([WORD.to_owned()]);
        let default = String::new();
        all.extend(by_name.map(|key| At {
            exchange: default.clone(),
            key,
        }));
        all.extend(BROUGHT_ALONG.map(|exchange| At {
            exchange: exchange.to_owned(),
            key: WORD.to_owned(),
        }));
        all
    }

    /// Another in `user_id`, and another's key as the second.
    fn pretending(&self, principal: &Principal, others: &[&Principal]) -> BTreeSet<Attempt> {
        let mut all = BTreeSet::new();
        for (nth, at) in addresses(self.own).into_iter().enumerate() {
            let whose = others.iter().copied().filter(|it| *it != principal);
            // The broker looks at the login alone: everybody is tried in one place, one in every other.
            let whose = whose.take(if nth == 0 { usize::MAX } else { 1 });
            all.extend(whose.map(|other| Attempt::Impersonate {
                at: at.clone(),
                other: other.clone(),
            }));
            if Exchange::named(&at.exchange).map(Exchange::kind) != Some(ExchangeKind::Topic) {
                continue;
            }
            let theirs = self.theirs.iter().filter(|it| it.exchange == at.exchange);
            let keys = theirs.map(|it| it.key.clone()).chain([WORD.to_owned()]);
            let foreign = keys.filter(|key| !self.own.may_publish(&at.exchange, key));
            all.extend(foreign.map(|to| Attempt::Copy { at: at.clone(), to }));
        }
        all
    }

    fn reading(&self) -> BTreeSet<Attempt> {
        let mut all = BTreeSet::new();
        for queue in self.queues.iter().map(Queue::name) {
            // Who may read it could empty it as well, and that is not tried.
            if !self.own.may_read(&queue) {
                all.extend([Attempt::Get(queue.clone()), Attempt::Purge(queue.clone())]);
            }
            all.insert(Attempt::Consume(queue));
        }
        let own = self.own.read.iter().map(Queue::name);
        all.extend(own.flat_map(|name| near(&name)).map(Attempt::Consume));
        all
    }

    fn configuring(&self) -> BTreeSet<Attempt> {
        let mut all = BTreeSet::new();
        let queues = self.own.read.iter().chain(&self.queues);
        for queue in queues.map(Queue::name).chain([WORD.to_owned()]) {
            all.insert(Attempt::DeleteQueue(queue.clone()));
            all.insert(Attempt::DeclareQueue(queue));
        }
        // One the broker would name.
        all.insert(Attempt::DeclareQueue(String::new()));
        let exchanges = Exchange::ALL.iter().map(ToString::to_string);
        for exchange in exchanges.chain([WORD.to_owned()]) {
            all.insert(Attempt::DeleteExchange(exchange.clone()));
            all.insert(Attempt::DeclareExchange(exchange));
        }
        all
    }

    fn binding(&self, topology: &Topology) -> BTreeSet<Attempt> {
        let mut all = BTreeSet::new();
        let bond = |to: &str, from: Exchange, key: &str| Bond {
            to: to.to_owned(),
            from: from.to_string(),
            key: key.to_owned(),
        };
        for queue in self.own.read.iter().chain(&self.queues) {
            let (source, name) = (queue.source().0, queue.name());
            for from in Exchange::ALL {
                if from != source && !self.own.read.contains(queue) {
                    continue;
                }
                all.extend([WORD, "#"].map(|key| Attempt::Bind(bond(&name, from, key))));
            }
            let bound = topology.bindings.iter().filter(|it| it.queue == *queue);
            let bound = bound.map(|it| Attempt::Unbind(bond(&name, it.exchange, &it.key)));
            all.extend(bound.take(BONDS).filter(|it| it.gate().is_some()));
        }
        // The gate of what is unbound from elsewhere than where it comes from.
        let gates: Vec<Attempt> = all.iter().filter_map(Attempt::gate).collect();
        all.extend(gates);
        let written = self.own.write.iter().copied();
        for to in written.chain([Exchange::Events]) {
            for from in Exchange::ALL.into_iter().filter(|from| *from != to) {
                let keys = [WORD, "#"];
                all.extend(keys.map(|key| Attempt::BindExchange(bond(to.as_str(), from, key))));
            }
        }
        all
    }
}

/// Exchanges with a name like the one somebody may write to, which no broker of the mesh's has.
fn near_exchanges(at: &At) -> impl Iterator<Item = At> {
    near(&at.exchange).into_iter().map(|exchange| At {
        exchange,
        key: at.key.clone(),
    })
}

/// Names and keys that are almost this one: what a pattern would match that is not anchored, or where a dot is any letter;
/// with another word in the place of each, so that none can be a wildcard unnoticed; a word more and a word less.
fn near(name: &str) -> BTreeSet<String> {
    let words: Vec<&str> = name.split('.').collect();
    let with = |at: usize| {
        let others = words.iter().enumerate();
        let others = others.map(|(place, word)| if place == at { WORD } else { word });
        others.collect::<Vec<_>>().join(".")
    };
    let mut all: BTreeSet<String> = (0..words.len()).map(with).collect();
    all.extend([
        format!("{name}0"),
        format!("0{name}"),
        format!("{name}\n"),
        format!("{name}.{WORD}"),
        name.replace('.', "x"),
    ]);
    let mut shorter = name.chars();
    shorter.next_back();
    let mut later = name.chars();
    later.next();
    all.extend([shorter.as_str().to_owned(), later.as_str().to_owned()]);
    all.extend(name.rsplit_once('.').map(|(before, _)| before.to_owned()));
    // Nothing as a name stands for something else: the default exchange, the queue that was made last.
    all.retain(|it| it != name && !it.is_empty());
    all
}

/// Exchanges every virtual host has.
const BROUGHT_ALONG: [&str; 5] = [
    "amq.direct",
    "amq.fanout",
    "amq.headers",
    "amq.match",
    "amq.topic",
];
/// Bindings of one queue that are tried: whoever may take away one may take away all.
const BONDS: usize = 2;
