//! A topology held against itself, before a broker sees any of it.

use std::collections::{BTreeMap, BTreeSet};

use mesh_model::{Filter, InstanceRef, ModuleName, Principal};

use super::exchange::{Address, Exchange, ExchangeKind};
use super::fault::TopologyFault;
use super::pattern::LIMIT;
use super::queue::{Queue, QueueClass};
use super::rights::{Key, Rights};
use super::user::{EPOCH_LENGTH, controller_login, login};
use super::{Binding, Topology};
use crate::derive::announced;
use crate::subject::{self, own};

/// Bytes of a name or key: AMQP carries it as a short string.
pub const NAME_LIMIT: usize = 255;

impl Topology {
    /// Everything in it that does not serve what it must serve, or that a broker does not take, in a stable order; none
    /// when it may be applied.
    #[must_use]
    pub fn check(&self) -> Vec<TopologyFault> {
        let mut found = Vec::new();
        self.check_limits(&mut found);
        self.check_queues(&mut found);
        self.check_bindings(&mut found);
        self.check_follows(&mut found);
        let heard = Heard::of(self);
        for (principal, rights) in &self.users {
            check_patterns(principal, rights, &mut found);
            self.check_reads(principal, rights, &mut found);
            self.check_writes(principal, rights, &heard, &mut found);
        }
        self.check_shared(&mut found);
        found.sort();
        found.dedup();
        found
    }

    fn check_limits(&self, found: &mut Vec<TopologyFault>) {
        let broker = &self.broker;
        let queues = self.queues.keys().map(|queue| ("queue", queue.name()));
        let keys = self
            .bindings
            .iter()
            .map(|it| ("routing key", it.key.clone()));
        let users = self.users.keys().map(|who| match who {
            Principal::Controller => controller_login(&broker.users, &"0".repeat(EPOCH_LENGTH)),
            who => login(&broker.users, who),
        });
        let users = users.map(|user| ("user", user));
        let vhost = ("virtual host", broker.vhost.clone());
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
            let version = broker.version;
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
            if let Some((exchange, key)) = queue.only_written()
                && !controller.is_some_and(|rights| writes(rights, exchange, &key))
            {
                found.push(TopologyFault::NeverFilled {
                    queue: queue.clone(),
                    exchange,
                    key,
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
            let is_own = match own {
                Some(own) => own == *key,
                None => self.is_followed(queue, key),
            };
            if !(source == *exchange && is_own || queue.is_carried_by(*exchange, key)) {
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

    /// Whether a key is that of one event, which the reader of a queue was declared to hear.
    fn is_followed(&self, queue: &Queue, key: &str) -> bool {
        let declared = self.follows.get(queue);
        declared.is_some_and(|keys| keys.contains(key)) && !key.split('.').any(is_wildcard)
    }

    /// What somebody was declared to hear has to come to him.
    fn check_follows(&self, found: &mut Vec<TopologyFault>) {
        for (queue, keys) in &self.follows {
            for key in keys {
                let binding = Binding {
                    exchange: Exchange::Events,
                    key: key.clone(),
                    queue: queue.clone(),
                };
                if !self.bindings.contains(&binding) {
                    let Binding {
                        exchange,
                        key,
                        queue,
                    } = binding;
                    found.push(TopologyFault::Misses {
                        queue,
                        exchange,
                        key,
                    });
                }
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
        for class in &rights.read_all {
            let is_carried = matches!(class, QueueClass::Module | QueueClass::Seat);
            if !(is_carried && self.carries(principal)) {
                found.push(TopologyFault::ReadsAll {
                    principal: principal.clone(),
                    class: *class,
                });
            }
        }
    }

    /// Whether somebody carries from and to this bus.
    fn carries(&self, principal: &Principal) -> bool {
        self.of_two && *principal == Principal::Controller
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

    /// Whether a key is what carrying takes: whoever it is for, and whatever it is.
    fn may_carry(&self, principal: &Principal, exchange: Exchange, key: &Key) -> bool {
        let carried = matches!(exchange, Exchange::Carried | Exchange::Seats);
        *key == Key::Any && carried && self.carries(principal)
    }

    fn check_writes(
        &self,
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
                if !(is_own(*exchange, key, &said) || self.may_carry(principal, *exchange, key)) {
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
        // Even the controller's only where it carries.
        Key::Any => false,
    }
}

/// Whether somebody may write everything that is under a key.
fn writes(rights: &Rights, exchange: Exchange, key: &Key) -> bool {
    let keys = rights.keys.get(&exchange);
    rights.write.contains(&exchange)
        && (exchange.kind() == ExchangeKind::Direct
            || keys.is_some_and(|keys| keys.contains(key) || keys.contains(&Key::Any)))
}

fn is_wildcard(word: &str) -> bool {
    matches!(word, "*" | "#")
}

/// Whether a key is that under which a module is announced.
fn is_announcement(key: &str) -> bool {
    let module = key.split_once('.').map(|(module, _)| module.parse());
    let Some(Ok(module)) = module else {
        return false;
    };
    let announced = Address::of(&subject::event(&announced(&module)));
    announced.is_some_and(|at| at.key == key)
}

/// Which keys go into some queue.
struct Heard<'a> {
    /// Each key something is bound with.
    bound: BTreeSet<(Exchange, &'a str)>,
    /// Those of events the controller hears.
    announced: BTreeSet<&'a str>,
}

impl<'a> Heard<'a> {
    fn of(topology: &'a Topology) -> Self {
        let bindings = topology.bindings.iter();
        let to_controller = bindings
            .clone()
            .filter(|it| it.exchange == Exchange::Events && it.queue == Queue::Announcements);
        Self {
            bound: bindings.map(|it| (it.exchange, it.key.as_str())).collect(),
            announced: to_controller.map(|it| it.key.as_str()).collect(),
        }
    }

    /// Whether a key goes somewhere. An event nobody follows may go nowhere; what is announced goes to the controller.
    fn takes(&self, exchange: Exchange, key: &Key) -> bool {
        if exchange == Exchange::Events {
            return match key {
                Key::Is(key) => !is_announcement(key) || self.announced.contains(key.as_str()),
                Key::Under(_) | Key::Any => true,
            };
        }
        let bound = |key: &str| self.bound.contains(&(exchange, key));
        match key {
            Key::Is(key) => {
                bound(key)
                    || bound("*") && !key.contains('.')
                    || key.split_once('.').is_some_and(|(first, rest)| {
                        bound(&format!("{first}.#"))
                            || bound(&format!("{first}.*.#"))
                            || !rest.contains('.') && bound(&format!("{first}.*"))
                    })
            }
            // All of it, or all that anybody says there.
            Key::Under(word) => ["#", "*.#", "*"]
                .iter()
                .any(|all| bound(&format!("{word}.{all}"))),
            // Whatever is bound there, now and later.
            Key::Any => true,
        }
    }
}
