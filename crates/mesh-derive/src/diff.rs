//! What one plan has that another has not: above all, whose authority grows.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use mesh_model::{
    ConsumerRef, ConsumerSpec, Filter, Grant, Principal, PublicKey, QueueSubscription, Selects,
    StreamName,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::plan::{Plan, Share};

/// Everything in which a newer plan differs from an older one, in a stable order.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PlanDiff {
    /// Each difference by itself; [`Display`](fmt::Display) writes one a line.
    pub differences: Vec<Difference>,
}

impl PlanDiff {
    /// Whether the plans are equal.
    pub fn is_empty(&self) -> bool {
        self.differences.is_empty()
    }

    /// Whether anybody may do or read what nobody of that name could before.
    pub fn widens(&self) -> bool {
        self.differences.iter().any(|difference| difference.widens)
    }
}

/// One difference.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Difference {
    /// In what.
    pub of: Part,
    /// Which.
    pub change: Change,
    /// Whether it lets somebody do or read what was not allowed before.
    pub widens: bool,
}

/// A part of a plan.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// What the accounts share.
    Accounts,
    /// A stream.
    Stream(StreamName),
    /// A consumer.
    Consumer(ConsumerRef),
    /// Somebody's authority.
    Principal(Principal),
}

/// How a part differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// It is new.
    Appears,
    /// It is no more.
    Goes,
    /// It may what it could not.
    Gains(Right),
    /// It may no longer.
    Loses(Right),
    /// Its key is another.
    Rekeyed,
    /// A consumer selects this, too.
    Selects(Filter),
    /// A consumer selects this no longer.
    SelectsNoMore(Filter),
    /// A field is another.
    Becomes {
        /// Which field.
        field: String,
        /// What it was, as JSON.
        from: String,
        /// What it is, as JSON.
        to: String,
    },
}

/// One entry of a grant, or of what the accounts share.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Right {
    /// May publish.
    Publish(Filter),
    /// May subscribe.
    Subscribe(Filter),
    /// May subscribe as a member of a group.
    Join(QueueSubscription),
    /// Messages cross to another account.
    Share(String),
}

impl Plan {
    /// What `newer` has that this plan has not, and the other way about.
    #[must_use]
    pub fn diff(&self, newer: &Self) -> PlanDiff {
        let mut differences = self.diff_accounts(newer);
        for (old, new) in pairs(&self.streams, &newer.streams) {
            let Some(name) = old.or(new).map(|stream| stream.name.clone()) else {
                continue;
            };
            let fields = fields(old, new);
            differences.extend(part(Part::Stream(name), old, new, fields));
        }
        for (old, new) in pairs(&self.consumers, &newer.consumers) {
            let Some(name) = old.or(new).map(|spec| spec.consumer.clone()) else {
                continue;
            };
            let changes = consumer_changes(old, new);
            differences.extend(part(Part::Consumer(name), old, new, changes));
        }
        self.diff_grants(newer, &mut differences);
        PlanDiff { differences }
    }

    fn diff_accounts(&self, newer: &Self) -> Vec<Difference> {
        let rights = |plan: &Self| -> BTreeSet<Right> {
            let out = |(from, share): (&str, &Share)| {
                Right::Share(match share {
                    Share::Stream(filter) => format!("stream {filter} from {from}"),
                    Share::Service(filter) => format!("service {filter} of {from}"),
                })
            };
            let mesh = plan
                .accounts
                .mesh_exports
                .iter()
                .map(|share| ("MESH", share));
            let edge = plan
                .accounts
                .edge_exports
                .iter()
                .map(|share| ("EDGE", share));
            mesh.chain(edge).map(out).collect()
        };
        let (old, new) = (rights(self), rights(newer));
        let gains = new
            .difference(&old)
            .cloned()
            .map(|right| (Change::Gains(right), true));
        let loses = old
            .difference(&new)
            .cloned()
            .map(|right| (Change::Loses(right), false));
        gains.chain(loses).map(of(Part::Accounts)).collect()
    }

    fn diff_grants(&self, newer: &Self, differences: &mut Vec<Difference>) {
        let (old_keys, new_keys) = (keys(self), keys(newer));
        let principals: BTreeSet<&Principal> =
            self.grants.keys().chain(newer.grants.keys()).collect();
        for principal in principals {
            let (old, new) = (self.grants.get(principal), newer.grants.get(principal));
            let mut changes = grant_changes(old, new);
            if let Principal::Instance(instance) = principal {
                // An instance may what its module may; what the module's own lines say is not said again for each.
                let module = Principal::Module(instance.module.clone());
                let of_module = grant_changes(self.grants.get(&module), newer.grants.get(&module));
                let both = old.is_some() && new.is_some();
                changes.retain(|change| both && !of_module.contains(change));
            }
            let both = old.is_some() && new.is_some();
            if both && old_keys.get(principal) != new_keys.get(principal) {
                changes.push((Change::Rekeyed, false));
            }
            let principal = Part::Principal(principal.clone());
            differences.extend(part(principal, old, new, changes));
        }
    }
}

/// A new part says so first and then what it brings; one that is gone says only so.
fn part<T>(
    of_what: Part,
    old: Option<&T>,
    new: Option<&T>,
    mut changes: Vec<(Change, bool)>,
) -> Vec<Difference> {
    match (old, new) {
        (None, Some(_)) => {
            let widens = matches!(of_what, Part::Principal(_));
            changes.insert(0, (Change::Appears, widens));
        }
        (Some(_), None) => changes = vec![(Change::Goes, false)],
        _ => {}
    }
    changes.into_iter().map(of(of_what)).collect()
}

fn of(part: Part) -> impl Fn((Change, bool)) -> Difference {
    move |(change, widens)| Difference {
        of: part.clone(),
        change,
        widens,
    }
}

fn grant_changes(old: Option<&Grant>, new: Option<&Grant>) -> Vec<(Change, bool)> {
    let nothing = Grant::default();
    let (old, new) = (old.unwrap_or(&nothing), new.unwrap_or(&nothing));
    let (had, has) = (rights(old), rights(new));
    let gains = has.difference(&had).map(|right| {
        let widens = !allows(old, right);
        (Change::Gains(right.clone()), widens)
    });
    let loses = had.difference(&has);
    gains
        .chain(loses.map(|right| (Change::Loses(right.clone()), false)))
        .collect()
}

fn rights(grant: &Grant) -> BTreeSet<Right> {
    let publish = grant.publish.iter().cloned().map(Right::Publish);
    let subscribe = grant.subscribe.iter().cloned().map(Right::Subscribe);
    let join = grant.queues.iter().cloned().map(Right::Join);
    publish.chain(subscribe).chain(join).collect()
}

/// Whether a grant already allows what a right says, in wider words.
fn allows(grant: &Grant, right: &Right) -> bool {
    match right {
        Right::Publish(filter) => grant.publish.iter().any(|may| filter.is_subset_of(may)),
        Right::Subscribe(filter) => grant.subscribes(filter, None),
        Right::Join(join) => grant.subscribes(&join.filter, Some(&join.queue)),
        Right::Share(_) => false,
    }
}

fn consumer_changes(old: Option<&ConsumerSpec>, new: Option<&ConsumerSpec>) -> Vec<(Change, bool)> {
    let mut changes = fields(old, new);
    let everything =
        |spec: Option<&ConsumerSpec>| spec.is_some_and(|spec| spec.selects == Selects::Everything);
    if everything(old) || everything(new) {
        // To read all is no list of filters; the field's own line says it.
        let field = |change: &mut (Change, bool)| {
            if matches!(&change.0, Change::Becomes { field, .. } if field == SELECTS) {
                change.1 = everything(new);
            }
        };
        changes.iter_mut().for_each(field);
        return changes;
    }
    changes
        .retain(|(change, _)| !matches!(change, Change::Becomes { field, .. } if field == SELECTS));
    let filters = |spec: Option<&ConsumerSpec>| -> BTreeSet<Filter> {
        spec.into_iter()
            .flat_map(|spec| spec.selects.filters().cloned())
            .collect()
    };
    let (had, has) = (filters(old), filters(new));
    changes.extend(has.difference(&had).map(|filter| {
        let widens = !had.iter().any(|before| filter.is_subset_of(before));
        (Change::Selects(filter.clone()), widens)
    }));
    let no_more = had.difference(&has).cloned();
    changes.extend(no_more.map(|filter| (Change::SelectsNoMore(filter), false)));
    changes
}

const SELECTS: &str = "selects";

/// Every field that differs; none unless both are there.
fn fields<T: Serialize>(old: Option<&T>, new: Option<&T>) -> Vec<(Change, bool)> {
    let (Some(old), Some(new)) = (old, new) else {
        return Vec::new();
    };
    let (Ok(Value::Object(old)), Ok(Value::Object(new))) =
        (serde_json::to_value(old), serde_json::to_value(new))
    else {
        return Vec::new();
    };
    new.into_iter()
        .filter_map(|(field, to)| {
            let from = old.get(&field).cloned().unwrap_or(Value::Null);
            (from != to).then(|| {
                let (from, to) = (from.to_string(), to.to_string());
                (Change::Becomes { field, from, to }, false)
            })
        })
        .collect()
}

fn pairs<'a, K: Ord, V>(
    old: &'a BTreeMap<K, V>,
    new: &'a BTreeMap<K, V>,
) -> impl Iterator<Item = (Option<&'a V>, Option<&'a V>)> {
    let names: BTreeSet<&K> = old.keys().chain(new.keys()).collect();
    names.into_iter().map(|name| (old.get(name), new.get(name)))
}

fn keys(plan: &Plan) -> BTreeMap<&Principal, BTreeSet<&PublicKey>> {
    let mut keys: BTreeMap<&Principal, BTreeSet<&PublicKey>> = BTreeMap::new();
    for (key, principal) in &plan.users {
        keys.entry(principal).or_default().insert(key);
    }
    keys
}

impl fmt::Display for PlanDiff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.differences
            .iter()
            .try_for_each(|difference| writeln!(f, "{difference}"))
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = if self.widens { "!" } else { " " };
        write!(f, "{mark} {} {}", self.of, self.change)
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Accounts => f.write_str("accounts"),
            Self::Stream(stream) => write!(f, "stream {stream}"),
            Self::Consumer(consumer) => write!(f, "consumer {consumer}"),
            Self::Principal(principal) => write!(f, "{principal}"),
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Appears => f.write_str("is new"),
            Self::Goes => f.write_str("is removed"),
            Self::Gains(right) => write!(f, "gains {right}"),
            Self::Loses(right) => write!(f, "loses {right}"),
            Self::Rekeyed => f.write_str("has another key"),
            Self::Selects(filter) => write!(f, "selects {filter}"),
            Self::SelectsNoMore(filter) => write!(f, "no longer selects {filter}"),
            Self::Becomes { field, from, to } => write!(f, "changes {field} from {from} to {to}"),
        }
    }
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Publish(filter) => write!(f, "publish {filter}"),
            Self::Subscribe(filter) => write!(f, "subscribe {filter}"),
            Self::Join(join) => write!(f, "subscribe {} in group {}", join.filter, join.queue),
            Self::Share(share) => f.write_str(share),
        }
    }
}
