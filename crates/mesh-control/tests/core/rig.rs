//! A controller with a store and a bus that do as they are told.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::str::FromStr;
use std::time::Duration;

use mesh_control::{
    Change, Command, CommandError, CommandId, Controller, Effect, Fact, FactKey, Kept, Message,
    MessageKey, Mint, MintError, Minted, Queue, Settings, Settlement, Start, StoreRefusal, Ticket,
};
use mesh_derive::topology::{BrokerFacts, BrokerVersion, QueueKind};
use mesh_model::{
    BoxPublicKey, BusFacts, BusKind, BusPlace, Declaration, Declared, Enrolment, EnrolmentAnswer,
    Generation, Heartbeat, Manifest, ModuleName, NodeName, Outcome, Placement, Principal,
    PublicKey, Report, ReportId, Restart, Revision, Run, Sealed, Selector, Seq, Subject, Timestamp,
    TokenId, TokenRecord,
};

pub(crate) fn named<T: FromStr<Err: Debug>>(text: &str) -> T {
    text.parse().unwrap()
}

pub(crate) fn user(letter: char) -> PublicKey {
    PublicKey::from_raw([u8::try_from(letter).unwrap(); 32])
}

pub(crate) fn sealer(letter: char) -> BoxPublicKey {
    BoxPublicKey::from_raw([u8::try_from(letter).unwrap(); 32])
}

/// The user key of somebody who is told from others by these words.
fn key_of(words: &str) -> PublicKey {
    let mut raw = [0; 32];
    raw[..words.len()].copy_from_slice(words.as_bytes());
    PublicKey::from_raw(raw)
}

pub(crate) fn bus_facts() -> BusFacts {
    BusFacts {
        domain: None,
        account: "MESH".to_owned(),
    }
}

/// Nothing can be sealed to the key of this letter.
pub(crate) const UNSEALABLE: char = '!';

/// The controller's own user key is of this letter.
pub(crate) const CONTROLLER: char = '0';

#[derive(Debug)]
pub(crate) struct Stamp(u64);

impl Mint for Stamp {
    fn mint(
        &mut self,
        whom: &Principal,
        _: BusKind,
        to: &BoxPublicKey,
    ) -> Result<Minted, MintError> {
        if *to == sealer(UNSEALABLE) {
            let (whom, why) = (whom.clone(), "not a point".to_owned());
            return Err(MintError { whom, why });
        }
        self.0 += 1;
        Ok(Minted {
            key: key_of(&format!("credential {}", self.0)),
            credential: Sealed(to.as_str().as_bytes().to_vec()),
        })
    }

    /// Other bytes each time, as a real one.
    fn reseal(
        &mut self,
        whom: &Principal,
        sealed: &Sealed,
        to: &BoxPublicKey,
    ) -> Result<Sealed, MintError> {
        if !sealed.0.starts_with(b"sealed ") {
            let (whom, why) = (whom.clone(), "it does not open".to_owned());
            return Err(MintError { whom, why });
        }
        self.0 += 1;
        let text = format!("to {to} {}", self.0);
        // As long as what was sealed: a sealed value is longer than the value.
        let padding = vec![b' '; sealed.0.len()];
        Ok(Sealed([text.into_bytes(), padding].concat()))
    }
}

/// What the store answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Disk {
    Takes,
    /// It does not now; whether the commit is there all the same.
    Refuses {
        written: bool,
    },
    /// It never will take this.
    Never,
}

pub(crate) struct Rig {
    pub(crate) core: Controller<Stamp>,
    pub(crate) now: u64,
    pub(crate) facts: BTreeMap<FactKey, Fact>,
    pub(crate) disk: Disk,
    /// The bus answers by itself.
    pub(crate) bus: bool,
    /// Everything the controller said, in order.
    pub(crate) said: Vec<Effect>,
    sequence: u64,
    commands: u64,
}

pub(crate) const BOUND: u64 = 60_000;

pub(crate) fn settings() -> Settings {
    let mut settings = Settings::new(named("test"), bus_facts());
    settings.window.bound = Duration::from_millis(BOUND);
    settings.reports_kept = 4;
    settings.own_keys.insert(user(CONTROLLER));
    settings
}

fn broker() -> BrokerFacts {
    BrokerFacts {
        vhost: "mesh".to_owned(),
        version: BrokerVersion::PROVES_SENDER,
        queues: QueueKind::Classic,
        users: String::new(),
    }
}

fn settings_of_both() -> Settings {
    let mut settings = settings();
    settings.broker = Some(broker());
    for (bus, url) in [
        (BusKind::Nats, "tls://bus.example:4222"),
        (BusKind::Amqp, "amqps://bus.example/mesh"),
    ] {
        let place = BusPlace {
            urls: vec![url.to_owned()],
            ca: None,
            facts: bus_facts(),
        };
        settings.places.insert(bus, place);
    }
    settings
}

impl Rig {
    /// A new mesh, with everything as it should be.
    pub(crate) fn new() -> Self {
        Self::on(BTreeMap::new(), Start::Continued, Disk::Takes, 1_000_000)
    }

    pub(crate) fn on(facts: BTreeMap<FactKey, Fact>, start: Start, disk: Disk, now: u64) -> Self {
        Self::told(settings(), facts, start, disk, now)
    }

    /// A new mesh over RabbitMQ.
    pub(crate) fn over_amqp() -> Self {
        let mut told = settings();
        told.broker = Some(broker());
        Self::told(
            told,
            BTreeMap::new(),
            Start::Continued,
            Disk::Takes,
            1_000_000,
        )
    }

    /// A new mesh, with these settings.
    pub(crate) fn told_at(settings: Settings, now: u64) -> Self {
        Self::told(
            settings,
            BTreeMap::new(),
            Start::Continued,
            Disk::Takes,
            now,
        )
    }

    fn told(
        settings: Settings,
        facts: BTreeMap<FactKey, Fact>,
        start: Start,
        disk: Disk,
        now: u64,
    ) -> Self {
        let kept = Kept::assemble(facts.values().cloned(), bus_facts());
        let at = Timestamp::from_millis(now);
        let (core, effects) = Controller::start(kept, start, settings, Stamp(now), at);
        let mut rig = Self {
            core,
            now,
            facts,
            disk,
            bus: true,
            said: Vec::new(),
            sequence: 0,
            commands: 0,
        };
        rig.carry_out(effects);
        rig
    }

    /// A new mesh on NATS and RabbitMQ at once.
    pub(crate) fn on_both() -> Self {
        Self::told(
            settings_of_both(),
            BTreeMap::new(),
            Start::Continued,
            Disk::Takes,
            1_000_000,
        )
    }

    /// The controller of a mesh on both is killed and starts from what is on disk.
    pub(crate) fn restart_on_both(self) -> Self {
        let now = self.now + 10_000;
        Self::told(
            settings_of_both(),
            self.facts,
            Start::Continued,
            Disk::Takes,
            now,
        )
    }

    /// A mesh with node `a` in it, told and settled.
    pub(crate) fn with_node_a() -> Self {
        let mut rig = Self::new();
        rig.join("a", 'A');
        rig.said.clear();
        rig
    }

    /// The controller is killed and starts from what is on disk.
    pub(crate) fn restart(self, start: Start) -> Self {
        Self::on(self.facts, start, Disk::Takes, self.now + 10_000)
    }

    pub(crate) fn time(&self) -> Timestamp {
        Timestamp::from_millis(self.now)
    }

    pub(crate) fn carry_out(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            self.said.push(effect.clone());
            let now = self.time();
            let next = match effect {
                Effect::Store { ticket, changes } => self.store(ticket, &changes),
                Effect::Reopen => self.reopen(),
                Effect::Park { key, .. } if self.bus => self.core.handle_parked(key, Ok(())),
                Effect::Assert { version, .. } if self.bus => {
                    self.core.handle_asserted(version, Ok(()), now)
                }
                Effect::Declare { declaration, .. } if self.bus => {
                    let (node, generation) = (declaration.node, declaration.generation);
                    self.core.handle_declared(&node, generation, Ok(()), now)
                }
                _ => continue,
            };
            self.carry_out(next);
        }
    }

    fn take(&mut self, changes: &[Change]) {
        for change in changes {
            match change {
                Change::Put(fact) => self.facts.insert(fact.key(), fact.clone()),
                Change::Remove(key) => self.facts.remove(key),
            };
        }
    }

    fn store(&mut self, ticket: Ticket, changes: &[Change]) -> Vec<Effect> {
        let now = self.time();
        let result = match self.disk {
            Disk::Takes => {
                self.take(changes);
                Ok(())
            }
            Disk::Refuses { written } => {
                if written {
                    self.take(changes);
                }
                Err(StoreRefusal::Later("full".to_owned()))
            }
            Disk::Never => Err(StoreRefusal::Never("too large".to_owned())),
        };
        self.core.handle_stored(ticket, result, now)
    }

    fn reopen(&mut self) -> Vec<Effect> {
        let result = match self.disk {
            Disk::Refuses { .. } => Err(StoreRefusal::Later("full".to_owned())),
            Disk::Takes | Disk::Never => {
                Ok(Kept::assemble(self.facts.values().cloned(), bus_facts()))
            }
        };
        self.core.handle_reopened(result, self.time())
    }

    pub(crate) fn pass(&mut self, millis: u64) {
        self.now += millis;
        let effects = self.core.tick(self.time());
        self.carry_out(effects);
    }

    /// A message comes for the first time; answers what is said because of it.
    pub(crate) fn hear(&mut self, message: Message) -> (MessageKey, Vec<Effect>) {
        self.hear_on(BusKind::Nats, message)
    }

    /// The same, on this bus.
    pub(crate) fn hear_on(&mut self, bus: BusKind, message: Message) -> (MessageKey, Vec<Effect>) {
        self.sequence += 1;
        let key = MessageKey {
            bus,
            queue: Queue::Control,
            sequence: self.sequence,
        };
        (key, self.hear_again(key, message))
    }

    pub(crate) fn hear_again(&mut self, key: MessageKey, message: Message) -> Vec<Effect> {
        let before = self.said.len();
        let effects = self.core.handle_message(key, message, self.time());
        self.carry_out(effects);
        self.said.split_off(before)
    }

    pub(crate) fn beat(&mut self, heartbeat: Heartbeat) -> Vec<Effect> {
        let before = self.said.len();
        let effects = self.core.handle_heartbeat(heartbeat, self.time());
        self.carry_out(effects);
        self.said.split_off(before)
    }

    pub(crate) fn command(&mut self, command: Command) -> Option<Result<Revision, CommandError>> {
        self.commands += 1;
        let id = CommandId(self.commands);
        let now = self.time();
        let effects = self.core.handle_command(id, command, "me".to_owned(), now);
        self.carry_out(effects);
        self.reply(id.0)
    }

    pub(crate) fn reply(&self, command: u64) -> Option<Result<Revision, CommandError>> {
        self.said.iter().find_map(|effect| match effect {
            Effect::Reply { id, result } if id.0 == command => Some(result.clone()),
            _ => None,
        })
    }

    pub(crate) fn create_token(&mut self, id: &str, change: impl FnOnce(&mut TokenRecord)) {
        let mut token = TokenRecord {
            bus: BusKind::Nats,
            key: key_of(&format!("token {id}")),
            expires: self.time().plus(3_600_000),
            node: None,
            labels: BTreeMap::new(),
            rejoin: false,
            spent: None,
        };
        change(&mut token);
        let id = named(id);
        self.command(Command::CreateToken { id, token })
            .unwrap()
            .unwrap();
    }

    pub(crate) fn request(&self, token: &str, name: Option<&str>, key: char) -> Message {
        let token: TokenId = named(token);
        let request = Enrolment {
            node: name.map(named),
            key: user(key),
            box_key: sealer(key),
            reply: mesh_derive::subject::enrolment_answer(&token),
            clock: self.time(),
        };
        Message::Enrolment(token, request)
    }

    pub(crate) fn join(&mut self, name: &str, key: char) -> EnrolmentAnswer {
        let token = format!("of-{name}");
        self.create_token(&token, |_| {});
        let (_, said) = self.hear(self.request(&token, Some(name), key));
        answers(&said).pop().unwrap().1
    }

    pub(crate) fn generation(&self, node: &str) -> Generation {
        self.core.declarations()[&named::<NodeName>(node)].generation
    }

    pub(crate) fn report(&self, node: &str, seq: u64) -> Report {
        Report {
            id: ReportId {
                node: named(node),
                generation: self.generation(node),
                seq: Seq(seq),
            },
            at: self.time(),
            outcome: Outcome::Converged,
            modules: BTreeMap::new(),
        }
    }

    pub(crate) fn heartbeat(&self, node: &str, seq: u64) -> Heartbeat {
        Heartbeat {
            node: named(node),
            session: 1,
            applied: Some(self.generation(node)),
            seq: Seq(seq),
            deaf: false,
            version: "1".to_owned(),
            doing: [].into(),
        }
    }

    pub(crate) fn stored(&self, report: &Report) -> bool {
        self.facts.contains_key(&FactKey::Report(report.id.clone()))
    }
}

pub(crate) fn says(report: &Report) -> Message {
    Message::Report(report.id.node.clone(), report.clone())
}

pub(crate) fn settlements(said: &[Effect]) -> Vec<Settlement> {
    let settled = said.iter().filter_map(|effect| match effect {
        Effect::Settle(_, how) => Some(*how),
        _ => None,
    });
    settled.collect()
}

pub(crate) fn held(said: &[Effect]) -> bool {
    matches!(settlements(said)[..], [Settlement::Hold(_)])
}

pub(crate) fn done(said: &[Effect]) -> bool {
    matches!(settlements(said)[..], [Settlement::Done])
}

pub(crate) fn commits(said: &[Effect]) -> Vec<Vec<Change>> {
    let stores = said.iter().filter_map(|effect| match effect {
        Effect::Store { changes, .. } => Some(changes.clone()),
        _ => None,
    });
    stores.collect()
}

pub(crate) fn parks(said: &[Effect]) -> usize {
    let park = |effect: &&Effect| matches!(effect, Effect::Park { .. });
    said.iter().filter(park).count()
}

pub(crate) fn answers(said: &[Effect]) -> Vec<(Subject, EnrolmentAnswer)> {
    let answers = said.iter().filter_map(|effect| match effect {
        Effect::Answer { to, answer } => Some((to.clone(), answer.clone())),
        _ => None,
    });
    answers.collect()
}

pub(crate) fn told(said: &[Effect]) -> Vec<(Declaration, bool)> {
    let told = said.iter().filter_map(|effect| match effect {
        Effect::Declare {
            declaration,
            unless_there,
        } => Some((declaration.clone(), *unless_there)),
        _ => None,
    });
    told.collect()
}

pub(crate) fn position(said: &[Effect], is: impl Fn(&Effect) -> bool) -> usize {
    said.iter().position(is).unwrap()
}

pub(crate) fn manifest(name: &str) -> Manifest {
    Manifest {
        module: named(name),
        release: "1".to_owned(),
        run: Run::command(["serve".to_owned()]).unwrap(),
        after: BTreeSet::new(),
        env: BTreeMap::new(),
        restart: Restart::Always,
        emits: BTreeSet::new(),
        follows: BTreeSet::new(),
        can_hold: BTreeSet::from([named("desk")]),
        sends_to: BTreeSet::new(),
        health: None,
        secrets: [].into(),
    }
}

/// Module `x` on node `a` with 400 events that have nothing in common: their names make a pattern that a RabbitMQ does not
/// read.
pub(crate) fn larger_than_a_broker_takes() -> Declared {
    let mut large = declared(None, &[("x", &["a"])]);
    let scattered = |n: u64| {
        let digits = n.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        named(&format!("{:016x}", digits ^ (digits >> 29)))
    };
    if let Some(module) = large.modules.get_mut(&named::<ModuleName>("x")) {
        module.emits = (0..400).map(scattered).collect();
    }
    large
}

/// Modules `x` and `y`, seat `desk`, and each module placed on the nodes named.
pub(crate) fn declared(holder: Option<&str>, places: &[(&str, &[&str])]) -> Declared {
    let modules = ["x", "y"].map(|name| (named(name), manifest(name)));
    let place = |(module, nodes): &(&str, &[&str])| {
        let nodes = nodes.iter().map(|node| named(node)).collect();
        let on = Selector::Nodes(nodes);
        (named::<ModuleName>(module), Placement { on, count: None })
    };
    Declared {
        mesh: named("test"),
        modules: BTreeMap::from(modules),
        seats: BTreeMap::from([(named("desk"), holder.map(named).into())]),
        placements: places.iter().map(place).collect(),
    }
}

pub(crate) fn apply(declared: Declared) -> Command {
    Command::Apply {
        declared,
        if_revision: None,
    }
}
