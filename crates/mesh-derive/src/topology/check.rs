//! A topology held against itself, before a broker sees any of it.

use std::collections::{BTreeMap, BTreeSet};

use mesh_model::{Filter, InstanceRef, ModuleName, Principal};

use super::exchange::{Address, Exchange, ExchangeKind};
use super::fault::TopologyFault;
use super::pattern::LIMIT;
use super::queue::Queue;
use super::rights::{Key, Rights};
use super::user::user_name;
use super::{Binding, Topology};
use crate::subject::own;

/// Bytes of a name or key: AMQP carries it as a short string.
const NAME_LIMIT: usize = 255;

impl Topology {
    /// Everything in it that does not serve what it must serve, or that a broker does not take, in a stable order; none
    /// when it may be applied.
    #[must_use]
    pub fn check(&self) -> Vec<TopologyFault> {
        let mut found = Vec::new();
        self.check_limits(&mut found);
        self.check_queues(&mut found);
        self.check_bindings(&mut found);
        let heard = Heard::of(self);
        for (principal, rights) in &self.users {
            check_patterns(principal, rights, &mut found);
            self.check_reads(principal, rights, &mut found);
            check_writes(principal, rights, &heard, &mut found);
        }
        self.check_shared(&mut found);
        found.sort();
        found.dedup();
        found
    }

    fn check_limits(&self, found: &mut Vec<TopologyFault>) {
        let vhost = ("virtual host", self.broker.vhost.clone());
        let queues = self.queues.keys().map(|queue| ("queue", queue.name()));
        let keys = self
            .bindings
            .iter()
            .map(|it| ("routing key", it.key.clone()));
        let users = self.users.keys().map(|user| ("user", user_name(user)));
        let names = queues.chain(keys).chain(users).chain([vhost]);
        found.extend(
            names
                .filter(|(_, name)| !(1..=NAME_LIMIT).contains(&name.len()))
                .map(|(what, name)| TopologyFault::NameLength {
                    what,
                    name,
                    limit: NAME_LIMIT,
                }),
        );
        for (class, policy) in &self.policies {
            let version = self.broker.version;
            found.extend(
                policy
                    .refused_by(version)
                    .map(|setting| TopologyFault::RefusedSetting {
                        class: *class,
                        setting,
                        version,
                    }),
            );
        }
    }

    fn check_queues(&self, found: &mut Vec<TopologyFault>) {
        let bound: BTreeSet<&Queue> = self.bindings.iter().map(|it| &it.queue).collect();
        let controller = self.users.get(&Principal::Controller);
        for queue in self.queues.keys() {
            if !self.policies.contains_key(&queue.class()) {
                found.push(TopologyFault::NoPolicy {
                    queue: queue.clone(),
                });
            }
            let (exchange, _) = queue.source();
            let written = controller.is_some_and(|rights| rights.write.contains(&exchange));
            if queue.is_filled_by_controller() && !written {
                found.push(TopologyFault::NeverFilled {
                    queue: queue.clone(),
                    exchange,
                });
            }
            // With no module there is nothing to announce.
            if !bound.contains(queue) && *queue != Queue::Announcements {
                found.push(TopologyFault::Unbound {
                    queue: queue.clone(),
                });
            }
        }
    }

    fn check_bindings(&self, found: &mut Vec<TopologyFault>) {
        for Binding {
            exchange,
            key,
            queue,
        } in &self.bindings
        {
            let (source, own) = queue.source();
            if source != *exchange || own.is_some_and(|own| own != *key) {
                found.push(TopologyFault::HearsAnothers {
                    queue: queue.clone(),
                    exchange: *exchange,
                    key: key.clone(),
                });
            }
            if !self.queues.contains_key(queue) {
                found.push(TopologyFault::BindsNothing {
                    exchange: *exchange,
                    key: key.clone(),
                    queue: queue.clone(),
                });
            }
        }
    }

    fn check_reads(&self, principal: &Principal, rights: &Rights, found: &mut Vec<TopologyFault>) {
        for queue in &rights.read {
            if !self.queues.contains_key(queue) {
                found.push(TopologyFault::NoQueue {
                    principal: principal.clone(),
                    queue: queue.clone(),
                });
            }
            if !queue.is_for(principal) {
                found.push(TopologyFault::ReadsAnothers {
                    principal: principal.clone(),
                    queue: queue.clone(),
                });
            }
        }
    }

    /// Of two modules that read one queue each gets a part.
    fn check_shared(&self, found: &mut Vec<TopologyFault>) {
        let mut readers: BTreeMap<&Queue, &ModuleName> = BTreeMap::new();
        for (principal, rights) in &self.users {
            let Principal::Instance(InstanceRef { module, .. }) = principal else {
                continue;
            };
            for queue in &rights.read {
                let first = *readers.entry(queue).or_insert(module);
                if first != module {
                    found.push(TopologyFault::Shared {
                        queue: queue.clone(),
                        one: first.clone(),
                        other: module.clone(),
                    });
                }
            }
        }
    }
}

fn check_patterns(principal: &Principal, rights: &Rights, found: &mut Vec<TopologyFault>) {
    let topics = rights.topic_patterns();
    let topics = topics.map(|(exchange, pattern)| (format!("write to {exchange}"), pattern));
    let all = topics.chain([
        ("write to".to_owned(), rights.write_pattern()),
        ("read".to_owned(), rights.read_pattern()),
    ]);
    for (right, pattern) in all.filter(|(_, pattern)| pattern.len() > LIMIT) {
        found.push(TopologyFault::PatternTooLong {
            principal: principal.clone(),
            right,
            bytes: pattern.len(),
            limit: LIMIT,
        });
    }
}

fn check_writes(
    principal: &Principal,
    rights: &Rights,
    heard: &Heard<'_>,
    found: &mut Vec<TopologyFault>,
) {
    let topic = |exchange: &&Exchange| exchange.kind() == ExchangeKind::Topic;
    for exchange in rights.write.iter().filter(topic) {
        if !rights.keys.contains_key(exchange) {
            found.push(TopologyFault::AnyKey {
                principal: principal.clone(),
                exchange: *exchange,
            });
        }
    }
    for exchange in rights.write.iter().filter(|exchange| !topic(exchange)) {
        if *principal != Principal::Controller {
            found.push(TopologyFault::SpeaksAsController {
                principal: principal.clone(),
                exchange: *exchange,
            });
        }
    }
    let said = own(principal);
    for (exchange, keys) in &rights.keys {
        if !rights.write.contains(exchange) {
            found.push(TopologyFault::NoWrite {
                principal: principal.clone(),
                exchange: *exchange,
            });
        }
        for key in keys {
            if !is_own(*exchange, key, &said) {
                found.push(TopologyFault::SpeaksAsAnother {
                    principal: principal.clone(),
                    exchange: *exchange,
                    key: key.clone(),
                });
            }
            if !heard.takes(*exchange, key) {
                found.push(TopologyFault::Unheard {
                    principal: principal.clone(),
                    exchange: *exchange,
                    key: key.clone(),
                });
            }
        }
    }
}

/// Whether a key stands only for what is a principal's own to say.
fn is_own(exchange: Exchange, key: &Key, said: &[Filter]) -> bool {
    let at = |key: &str| {
        let key = key.to_owned();
        Address { exchange, key }.subject()
    };
    match key {
        Key::Is(key) => at(key).is_some_and(|subject| said.iter().any(|own| own.matches(&subject))),
        Key::Under(word) => {
            let one = at(&format!("{word}.x"));
            let all = one.and_then(|subject| {
                let head = subject.as_str().strip_suffix("x")?;
                Filter::new(format!("{head}>")).ok()
            });
            all.is_some_and(|all| said.iter().any(|own| all.is_subset_of(own)))
        }
    }
}

/// Which keys go into some queue.
struct Heard<'a>(BTreeSet<(Exchange, &'a str)>);

impl<'a> Heard<'a> {
    fn of(topology: &'a Topology) -> Self {
        let bindings = topology.bindings.iter();
        Self(bindings.map(|it| (it.exchange, it.key.as_str())).collect())
    }

    /// Whether a key goes somewhere. An event nobody follows may go nowhere.
    fn takes(&self, exchange: Exchange, key: &Key) -> bool {
        if exchange == Exchange::Events {
            return true;
        }
        let bound = |key: &str| self.0.contains(&(exchange, key));
        match key {
            Key::Is(key) => {
                bound(key)
                    || bound("*") && !key.contains('.')
                    || key.split_once('.').is_some_and(|(first, rest)| {
                        bound(&format!("{first}.#"))
                            || !rest.contains('.') && bound(&format!("{first}.*"))
                    })
            }
            Key::Under(word) => bound(&format!("{word}.#")),
        }
    }
}
