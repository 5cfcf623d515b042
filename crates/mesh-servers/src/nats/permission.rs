//! A user's permissions as a server applies them to raw text: what may be published, subscribed and is then delivered.

use super::subject::{is_literal, is_subset, matches, overlaps};

/// The lists of one direction, as they stand in a user's configuration or JWT.
///
/// An empty list of what is allowed allows everything; the list of what is denied comes after it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Permissions {
    /// What is allowed; nothing here, and everything is.
    pub allow: Vec<String>,
    /// What is refused all the same.
    pub deny: Vec<String>,
}

/// An entry of a list that is no subject with at most one queue group.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "permission {0:?} is not a subject with at most one queue group; write it as `subject` or `subject queue`"
)]
pub struct EntryError(pub String);

impl Permissions {
    /// Whether a message may be published on `subject`: `pubAllowedFullCheck` of `server/client.go`. The text is matched
    /// as it is: publishing on the literal `mesh.*` is allowed by `mesh.*`.
    pub fn may_publish(&self, subject: &str) -> bool {
        let listed = |list: &[String]| list.iter().any(|entry| matches(entry, subject));
        (self.allow.is_empty() || listed(&self.allow)) && !listed(&self.deny)
    }

    /// Whether `filter` may be subscribed to, in `queue` where one is given: `canSubscribe` of `server/client.go`.
    ///
    /// Both lists are *matched* against the filter as if it were a published subject. So an allowed `mesh.mod.*` admits
    /// `mesh.mod.>`, whose one last token `*` stands for; and a denied `mesh.secret.x` does not stop `mesh.>`, for which
    /// see [`Self::delivers`].
    pub fn may_subscribe(&self, filter: &str, queue: Option<&str>) -> bool {
        let queue = queue.filter(|queue| !queue.is_empty());
        let allowed = self.allow.is_empty() || {
            let found = Found::of(&self.allow, filter);
            match queue {
                Some(queue) if !found.queues.is_empty() => found.names(queue),
                _ => found.plain,
            }
        };
        allowed && !Found::of(&self.deny, filter).refuses(queue)
    }

    /// Whether a subscription to `filter` is given a message on `subject`.
    ///
    /// What is denied is looked at again for each message, where the filter has a wildcard and something denied overlaps
    /// it (`canSubscribe`, `loadMsgDenyFilter`; measured on 2.15.1: servers before it looked only where the denied lay
    /// wholly within the filter, and delivered what overlapped in part). A denial for a queue group is one for it alone.
    pub fn delivers(&self, filter: &str, queue: Option<&str>, subject: &str) -> bool {
        let looked_at = !is_literal(filter)
            && self.deny.iter().any(|entry| {
                split_subject_queue(entry).is_ok_and(|(denied, _)| overlaps(denied, filter))
            });
        let refused = || Found::of(&self.deny, subject).refuses(queue);
        self.may_subscribe(filter, queue) && matches(filter, subject) && !(looked_at && refused())
    }
}

/// What of a list matches a filter.
struct Found<'a> {
    /// Whether an entry without a queue group does.
    plain: bool,
    /// The groups of those that have one.
    queues: Vec<&'a str>,
}

impl<'a> Found<'a> {
    fn of(list: &'a [String], filter: &str) -> Self {
        let mut found = Self {
            plain: false,
            queues: Vec::new(),
        };
        for entry in list {
            match split_subject_queue(entry) {
                Ok((subject, None)) => found.plain |= matches(subject, filter),
                Ok((subject, Some(queue))) if matches(subject, filter) => found.queues.push(queue),
                _ => {}
            }
        }
        found
    }

    /// Whether, of what is denied, this is enough for a subscriber in `queue`, or in none.
    fn refuses(&self, queue: Option<&str>) -> bool {
        self.plain || queue.is_some_and(|queue| self.names(queue))
    }

    /// `queueMatches`: by name first, since `v1.*` is also a name, then as a filter.
    fn names(&self, queue: &str) -> bool {
        let named =
            |group: &&str| queue == *group || (!is_literal(group) && is_subset(queue, group));
        self.queues.iter().any(named)
    }
}

/// The subject and the queue group of an entry: `splitSubjectQueue` of `server/client.go`.
pub fn split_subject_queue(entry: &str) -> Result<(&str, Option<&str>), EntryError> {
    let mut fields = entry.split_whitespace();
    match (fields.next(), fields.next(), fields.next()) {
        (Some(subject), queue, None) => Ok((subject, queue)),
        _ => Err(EntryError(entry.to_owned())),
    }
}

/// Whether an entry may stand in a list of subscriptions: `Permission.Validate` of nats-io/jwt, which allows a queue.
pub fn valid_subscribe_entry(entry: &str) -> bool {
    let mut fields = entry.split(' ');
    let (subject, queue, more) = (fields.next(), fields.next(), fields.next());
    more.is_none() && subject.into_iter().chain(queue).all(super::valid_filter)
}

/// Whether an entry may stand in a list of publications: a subject and nothing else (`Permission.Validate`).
pub fn valid_publish_entry(entry: &str) -> bool {
    super::valid_filter(entry)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn permissions(allow: &[&str], deny: &[&str]) -> Permissions {
        let owned = |list: &[&str]| list.iter().map(ToString::to_string).collect();
        Permissions {
            allow: owned(allow),
            deny: owned(deny),
        }
    }

    #[test]
    fn what_is_denied_is_taken_out_of_a_wider_subscription() {
        let whole = permissions(&[">"], &["mesh.secret.>"]);
        for filter in ["mesh.>", "mesh.*.x"] {
            assert!(whole.may_subscribe(filter, None));
            assert!(!whole.delivers(filter, None, "mesh.secret.x"), "{filter}");
            assert!(whole.delivers(filter, None, "mesh.open.x"), "{filter}");
        }
        let group = permissions(&[], &["b.> q"]);
        assert!(
            !group.delivers("*.b", Some("q"), "b.b") && group.delivers("*.b", Some("q"), "a.b")
        );
        assert!(group.delivers("*.b", Some("r"), "b.b") && group.delivers("*.b", None, "b.b"));
    }

    #[test]
    fn a_group_is_allowed_by_its_name_or_by_a_filter_of_names() {
        let named = permissions(&["a v1.*"], &["> bad"]);
        assert!(!named.may_subscribe("a", None));
        assert!(named.may_subscribe("a", Some("v1.x")));
        assert!(named.may_subscribe("a", Some("v1.*")));
        assert!(!named.may_subscribe("a", Some("v2.x")));
        let denied = permissions(&[], &["> bad"]);
        assert!(denied.may_subscribe("a", Some("good")) && denied.may_subscribe("a", None));
        assert!(!denied.may_subscribe("a", Some("bad")));
    }
}
