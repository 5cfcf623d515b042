//! The buses a mesh is on, from one start to the next: another is added, and one on which nobody is any more is dropped.
//!
//! What a bus knows of a key is a thing of its own, so whoever is on one that is dropped could log in nowhere.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, bail};
use mesh_auth::keyfile;
use mesh_model::{BusKind, Records, Timestamp};

use crate::state::Begun;

/// The file that names them, beside the keys.
const FILE: &str = "bus";

/// Holds the configured buses against those there were, and notes them for the next start. `records` are those the store
/// held, if it held any.
pub(crate) fn hold(
    dir: &Path,
    begun: Begun,
    configured: &BTreeSet<BusKind>,
    records: Option<&Records>,
    now: Timestamp,
) -> anyhow::Result<()> {
    let file = dir.join(FILE);
    if begun == Begun::Before {
        let before = noted(&file)?;
        if before == *configured {
            return Ok(());
        }
        for dropped in before.difference(configured) {
            let on = records.map(|records| On::of(records, *dropped, now));
            if let Some(on) = on.filter(|on| !on.nobody()) {
                bail!("{}", on.refusal(*dropped));
            }
        }
        for kind in configured.difference(&before) {
            tracing::info!(bus = %kind, "this mesh is on one more bus from now on");
        }
        for kind in before.difference(configured) {
            tracing::info!(bus = %kind, "nobody is on this bus any more; this mesh leaves it");
        }
    }
    let lines: String = configured.iter().fold(String::new(), |mut text, kind| {
        // Writing to a string does not fail.
        let _written = writeln!(text, "{kind}");
        text
    });
    Ok(keyfile::write_public(&file, &lines)?)
}

fn noted(file: &Path) -> anyhow::Result<BTreeSet<BusKind>> {
    let text = match std::fs::read_to_string(file) {
        Ok(text) => text,
        // Begun by a release that had no other.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Ok([BusKind::Nats].into());
        }
        Err(error) => return Err(error).context(format!("{} cannot be read", file.display())),
    };
    let kinds = text.split_whitespace().map(str::parse);
    let kinds: Result<BTreeSet<BusKind>, _> = kinds.collect();
    kinds.with_context(|| {
        format!(
            "{} cannot be used; restore it from a backup",
            file.display()
        )
    })
}

/// Who is on a bus.
#[derive(Debug, PartialEq, Eq)]
struct On {
    nodes: Vec<String>,
    tokens: Vec<String>,
}

impl On {
    /// One that was offered it has another, and keeps that. A token that was used or has ended is good for nobody.
    fn of(records: &Records, bus: BusKind, now: Timestamp) -> Self {
        let nodes = records.nodes.iter();
        let nodes = nodes.filter(|(_, node)| node.bus == bus);
        let tokens = records
            .tokens
            .iter()
            .filter(|(_, token)| token.bus == bus && token.spent.is_none() && token.expires > now);
        Self {
            nodes: nodes.map(|(name, _)| name.to_string()).collect(),
            tokens: tokens.map(|(id, _)| id.to_string()).collect(),
        }
    }

    fn nobody(&self) -> bool {
        self.nodes.is_empty() && self.tokens.is_empty()
    }

    fn refusal(&self, dropped: BusKind) -> String {
        let other = dropped.other();
        let mut who = Vec::new();
        let mut remedies = Vec::new();
        if !self.nodes.is_empty() {
            who.push(format!("nodes {}", self.nodes.join(", ")));
            remedies.push(format!("`meshctl node move --all --to {other}`"));
        }
        if !self.tokens.is_empty() {
            who.push(format!("tokens {}", self.tokens.join(", ")));
            remedies.push("`meshctl token revoke ID` for each token".to_owned());
        }
        format!(
            "the configuration names no [bus.{dropped}] any more, and still on it are {}; write [bus.{dropped}] again, beside [bus.{other}], start, run {}, and leave it out then",
            who.join(" and "),
            remedies.join(" and "),
        )
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use mesh_model::{
        BoxPublicKey, BusFacts, Moving, NodeRecord, PublicKey, Sealed, Spent, TokenRecord,
    };

    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_000);
    const NATS: [BusKind; 1] = [BusKind::Nats];
    const AMQP: [BusKind; 1] = [BusKind::Amqp];

    fn records(nodes: &[(&str, BusKind)]) -> Records {
        let bus = BusFacts {
            domain: None,
            account: "MESH".to_owned(),
        };
        let mut records = Records::new("home".parse().unwrap(), bus);
        for (name, bus) in nodes {
            let record = NodeRecord {
                bus: *bus,
                moving: None,
                key: PublicKey::from_raw([1; 32]),
                box_key: BoxPublicKey::from_raw([2; 32]),
                labels: BTreeMap::new(),
                token: "t".parse().unwrap(),
                enrolled: NOW,
                scheduling: mesh_model::Scheduling::Open,
            };
            records.nodes.insert(name.parse().unwrap(), record);
        }
        records
    }

    fn token(bus: BusKind, expires: u64) -> TokenRecord {
        TokenRecord {
            bus,
            key: PublicKey::from_raw([3; 32]),
            expires: Timestamp::from_millis(expires),
            node: None,
            labels: BTreeMap::new(),
            rejoin: false,
            spent: None,
        }
    }

    /// What comes of starting with these buses on a mesh begun on those.
    fn started(before: &[BusKind], now: &[BusKind], records: &Records) -> Result<String, String> {
        let dir = tempfile::tempdir().unwrap();
        let hold = |begun, kinds: &[BusKind]| {
            let kinds = kinds.iter().copied().collect();
            hold(dir.path(), begun, &kinds, Some(records), NOW)
        };
        hold(Begun::Now, before).unwrap();
        hold(Begun::Before, now).map_err(|error| error.to_string())?;
        Ok(std::fs::read_to_string(dir.path().join(FILE)).unwrap())
    }

    #[test]
    fn a_bus_is_added_whoever_is_on_the_one_there_is_and_an_empty_one_is_dropped() {
        let on_nats = records(&[("a", BusKind::Nats)]);
        let on_amqp = records(&[("a", BusKind::Amqp)]);
        for (before, now, records, noted) in [
            (&NATS[..], &BusKind::ALL[..], &on_nats, "nats\namqp\n"),
            (&AMQP, &BusKind::ALL, &on_amqp, "nats\namqp\n"),
            (&BusKind::ALL, &BusKind::ALL, &on_nats, "nats\namqp\n"),
            (&BusKind::ALL, &NATS, &on_nats, "nats\n"),
            (&BusKind::ALL, &AMQP, &on_amqp, "amqp\n"),
            // Nobody joined yet.
            (&NATS, &AMQP, &records(&[]), "amqp\n"),
        ] {
            assert_eq!(started(before, now, records).as_deref(), Ok(noted));
        }
    }

    #[test]
    fn a_bus_somebody_is_on_is_not_dropped_and_they_are_named_with_the_remedy() {
        let some = [
            ("a", BusKind::Nats),
            ("b", BusKind::Amqp),
            ("c", BusKind::Nats),
        ];
        let error = started(&BusKind::ALL, &AMQP, &records(&some)).unwrap_err();
        for said in [
            "no [bus.nats] any more",
            "nodes a, c;",
            "write [bus.nats] again",
            "`meshctl node move --all --to amqp`",
        ] {
            assert!(error.contains(said), "{error}");
        }
        assert!(!error.contains("token"), "{error}");
        // From one to the other at once, too: the remedy takes both.
        let error = started(&NATS, &AMQP, &records(&some)).unwrap_err();
        assert!(error.contains("nodes a, c;"), "{error}");

        let mut of_token = records(&[("b", BusKind::Amqp)]);
        let id = "open".parse().unwrap();
        of_token.tokens.insert(id, token(BusKind::Nats, 2_000));
        let error = started(&BusKind::ALL, &AMQP, &of_token).unwrap_err();
        assert!(
            error.contains("tokens open;") && error.contains("meshctl token revoke"),
            "{error}"
        );
        assert!(!error.contains("node move"), "{error}");
    }

    #[test]
    fn who_was_only_offered_a_bus_and_tokens_that_are_good_no_more_hold_nothing() {
        let mut records = records(&[("a", BusKind::Nats)]);
        for record in records.nodes.values_mut() {
            record.moving = Some(Moving::Proving {
                to: BusKind::Amqp,
                key: PublicKey::from_raw([4; 32]),
                credential: Sealed(Vec::new()),
                since: NOW,
            });
        }
        let mut used = token(BusKind::Amqp, 2_000);
        used.spent = Some(Spent {
            node: "a".parse().unwrap(),
            key: PublicKey::from_raw([1; 32]),
            arrived: true,
        });
        let others = [("ended", token(BusKind::Amqp, 1_000)), ("used", used)];
        for (id, token) in others {
            records.tokens.insert(id.parse().unwrap(), token);
        }
        assert_eq!(
            started(&BusKind::ALL, &NATS, &records).as_deref(),
            Ok("nats\n")
        );
    }

    #[test]
    fn what_an_earlier_release_left_is_understood_and_what_nobody_wrote_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let on = records(&[("a", BusKind::Nats)]);
        let start = |kinds: &[BusKind]| {
            let kinds = kinds.iter().copied().collect();
            hold(dir.path(), Begun::Before, &kinds, Some(&on), NOW)
        };
        start(&NATS).unwrap();
        assert!(start(&AMQP).is_err());
        std::fs::write(dir.path().join(FILE), "amqp\n").unwrap();
        start(&BusKind::ALL).unwrap();
        std::fs::write(dir.path().join(FILE), "mqtt\n").unwrap();
        let error = format!("{:#}", start(&NATS).unwrap_err());
        assert!(error.contains("restore it from a backup"), "{error}");
    }
}
