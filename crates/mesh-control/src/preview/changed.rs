//! What is declared anew, differently or no longer, and in what it differs, by the keys the files have.
//!
//! Each value is taken apart whole, so that a key it gets one day is not forgotten here.

use std::collections::BTreeMap;
use std::fmt::Display;

use mesh_model::{Container, Declared, Manifest, Placement, Run, SeatSpec, Selector};

pub(super) fn differences(before: &Declared, after: &Declared) -> Vec<String> {
    let Declared {
        mesh,
        modules,
        seats,
        placements,
    } = before;
    let mut sentences = Vec::new();
    if *mesh != after.mesh {
        sentences.push(format!("the mesh is called {}", after.mesh));
    }
    sentences.extend(compare("module", modules, &after.modules, manifest));
    sentences.extend(compare("seat", seats, &after.seats, seat));
    let placed = compare("placement of", placements, &after.placements, placement);
    sentences.extend(placed);
    sentences
}

/// A key of the files, and whether what it says differs.
type Key = (&'static str, bool);

fn compare<K: Ord + Display, V>(
    what: &str,
    before: &BTreeMap<K, V>,
    after: &BTreeMap<K, V>,
    keys: fn(&V, &V) -> Vec<Key>,
) -> Vec<String> {
    let mut sentences = Vec::new();
    for (name, value) in after {
        let Some(old) = before.get(name) else {
            sentences.push(format!("+ {what} {name}"));
            continue;
        };
        let keys = keys(old, value).into_iter();
        let changed: Vec<_> = keys.filter(|(_, changed)| *changed).collect();
        if !changed.is_empty() {
            let keys: Vec<_> = changed.into_iter().map(|(key, _)| key).collect();
            sentences.push(format!("~ {what} {name}: {}", keys.join(", ")));
        }
    }
    let gone = before.keys().filter(|name| !after.contains_key(*name));
    sentences.extend(gone.map(|name| format!("- {what} {name}")));
    sentences
}

fn manifest(old: &Manifest, new: &Manifest) -> Vec<Key> {
    let Manifest {
        module,
        release,
        run: how,
        after,
        env,
        restart,
        health,
        secrets,
        emits,
        follows,
        can_hold,
        sends_to,
    } = old;
    let mut keys = vec![
        ("name", *module != new.module),
        ("release", *release != new.release),
    ];
    keys.extend(run(how, &new.run));
    keys.extend([
        ("after", *after != new.after),
        ("env", *env != new.env),
        ("restart", *restart != new.restart),
        ("health", *health != new.health),
        ("secrets", *secrets != new.secrets),
        ("emits", *emits != new.emits),
        ("follows", *follows != new.follows),
        ("can_hold", *can_hold != new.can_hold),
        ("sends_to", *sends_to != new.sends_to),
    ]);
    keys
}

fn run(old: &Run, new: &Run) -> Vec<Key> {
    match (old, new) {
        (Run::Command { .. }, Run::Command { .. }) => vec![("command", old != new)],
        (Run::Image(_), Run::Command { .. }) => vec![("command in place of an image", true)],
        (Run::Command { .. }, Run::Image(_)) => vec![("image in place of a command", true)],
        (Run::Image(old), Run::Image(new)) => container(old, new),
    }
}

fn container(old: &Container, new: &Container) -> Vec<Key> {
    let Container {
        image,
        args,
        ports,
        volumes,
        network,
        resources,
        pull_secret,
    } = old;
    vec![
        ("image", *image != new.image),
        ("args", *args != new.args),
        ("ports", *ports != new.ports),
        ("volumes", *volumes != new.volumes),
        ("network", *network != new.network),
        ("resources", *resources != new.resources),
        ("pull_secret", *pull_secret != new.pull_secret),
    ]
}

fn seat(old: &SeatSpec, new: &SeatSpec) -> Vec<Key> {
    let SeatSpec { holder, failover } = old;
    let both = failover.is_some() && new.failover.is_some();
    let failover = *failover != new.failover;
    vec![
        ("holder", *holder != new.holder),
        ("failover", failover && !both),
        ("grace", failover && both),
    ]
}

fn placement(old: &Placement, new: &Placement) -> Vec<Key> {
    let Placement { on, count } = old;
    let key = match new.on {
        Selector::Nodes(_) => "nodes",
        Selector::Labels(_) => "labels",
    };
    vec![(key, *on != new.on), ("count", *count != new.count)]
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use mesh_model::{Health, Network, Probe, Restart};

    use super::*;

    fn declared() -> Declared {
        let container = Container::new("mailer:1".parse().unwrap());
        let manifest = Manifest {
            module: "mailer".parse().unwrap(),
            release: "1".to_owned(),
            run: Run::Image(Box::new(container)),
            after: [].into(),
            env: [].into(),
            restart: Restart::Always,
            health: None,
            secrets: [].into(),
            emits: [].into(),
            follows: [].into(),
            can_hold: [].into(),
            sends_to: [].into(),
        };
        let placement = Placement {
            on: Selector::Labels([].into()),
            count: None,
        };
        Declared {
            mesh: "home".parse().unwrap(),
            modules: [(manifest.module.clone(), manifest)].into(),
            seats: [("mail".parse().unwrap(), SeatSpec::default())].into(),
            placements: [("mailer".parse().unwrap(), placement)].into(),
        }
    }

    fn module(after: &mut Declared) -> &mut Manifest {
        after.modules.values_mut().next().unwrap()
    }

    fn contained(after: &mut Declared) -> &mut Container {
        match &mut module(after).run {
            Run::Image(container) => container,
            Run::Command { .. } => panic!("it is a container"),
        }
    }

    fn told(change: impl Fn(&mut Declared), expected: &[&str]) {
        let mut after = declared();
        change(&mut after);
        assert_eq!(differences(&declared(), &after), expected);
    }

    #[test]
    fn a_module_declared_differently_is_told_by_its_keys() {
        told(|_| (), &[]);
        told(|it| it.modules.clear(), &["- module mailer"]);
        let several = |it: &mut Declared| {
            module(it).release = "2".to_owned();
            contained(it).image = "mailer:2".parse().unwrap();
            contained(it).network = Network::Host;
            module(it).secrets = ["A".parse().unwrap()].into();
        };
        told(
            several,
            &["~ module mailer: release, image, network, secrets"],
        );
        let health = |it: &mut Declared| {
            let probe = Probe::Tcp("a:1".to_owned());
            module(it).health = Some(Health {
                probe,
                every: 1,
                within: 1,
            });
        };
        told(health, &["~ module mailer: health"]);
        let command = |it: &mut Declared| {
            module(it).run = Run::command(["a".to_owned()]).unwrap();
        };
        told(command, &["~ module mailer: command in place of an image"]);
    }

    #[test]
    fn the_mesh_a_seat_or_a_placement_declared_differently_is_told_by_its_keys() {
        let named = |it: &mut Declared| it.mesh = "away".parse().unwrap();
        told(named, &["the mesh is called away"]);
        let failover = |declared: &mut Declared, grace| {
            for seat in declared.seats.values_mut() {
                seat.failover = Some(grace);
            }
        };
        told(|it| failover(it, 1), &["~ seat mail: failover"]);
        let (mut one, mut other) = (declared(), declared());
        failover(&mut one, 1);
        failover(&mut other, 2);
        assert_eq!(differences(&one, &other), ["~ seat mail: grace"]);
        let counted = |it: &mut Declared| {
            for placement in it.placements.values_mut() {
                placement.count = NonZeroU32::new(2);
            }
        };
        told(counted, &["~ placement of mailer: count"]);
        let elsewhere = |it: &mut Declared| {
            for placement in it.placements.values_mut() {
                placement.on = Selector::Nodes([].into());
            }
            let audit = "audit".parse().unwrap();
            it.seats.insert(audit, SeatSpec::default());
        };
        told(elsewhere, &["+ seat audit", "~ placement of mailer: nodes"]);
    }
}
