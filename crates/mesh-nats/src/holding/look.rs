//! Looking at what a server holds, while nothing of the controller's waits for it.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use mesh_bus::{BusError, Finding};
use mesh_derive::Plan;
use mesh_model::BusFacts;
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::users::users;
use super::{Held, OnServer, definitions};
use crate::api::{Api, FoundStream};
use crate::authority::Authority;
use crate::memory::Memory;

/// What was read of a server, each part or why it could not be.
pub(crate) struct Read {
    pub(crate) on_server: Result<OnServer, BusError>,
    /// The users file, where there is one to be read.
    pub(crate) users: Option<Result<Option<String>, BusError>>,
}

impl Read {
    /// Everything that a plan is held against. Changes nothing.
    pub(crate) async fn of(api: &Api, authority: &Authority, plan: Arc<Plan>) -> Self {
        Self {
            on_server: on_server(api, &plan).await,
            users: authority.users().await.transpose(),
        }
    }
}

async fn on_server(api: &Api, plan: &Plan) -> Result<OnServer, BusError> {
    let streams = api.streams().await?;
    let mut consumers = BTreeMap::new();
    for name in plan.streams.keys() {
        let of = |stream: &FoundStream| stream.name() == Some(name.as_str());
        if streams.iter().any(of) {
            consumers.insert(name.clone(), api.consumers(name).await?);
        }
    }
    Ok(OnServer { streams, consumers })
}

/// Where a server is not as it was brought to be. `read` may take as long as it likes: an assertion does not wait for it.
/// What was asserted in the meantime is looked at once more.
pub(crate) async fn look<F: Future<Output = Read>>(
    memory: &Mutex<Memory>,
    facts: BusFacts,
    replicas: u8,
    read: impl Fn(Arc<Plan>) -> F,
) -> Vec<Finding> {
    for _ in 0..LOOKS {
        let Some((plan, loaded)) = asserted(memory).await else {
            return vec![under_way()];
        };
        let Some(plan) = plan.map(Arc::new) else {
            return Vec::new();
        };
        let found = read(Arc::clone(&plan)).await;
        let Some(now) = asserted(memory).await else {
            return vec![under_way()];
        };
        if now == (Some(Plan::clone(&plan)), loaded.clone()) {
            let held = compared(&plan, &facts, replicas, found, loaded.as_deref());
            return held.into_iter().map(Finding::from).collect();
        }
    }
    vec![under_way()]
}

/// The plan that was asserted last, and the users file the server was then asked to read; nothing while one is asserted.
async fn asserted(memory: &Mutex<Memory>) -> Option<(Option<Plan>, Option<String>)> {
    let memory = timeout(AWAITED, memory.lock()).await.ok()?;
    let loaded = memory.loaded.text().map(str::to_owned);
    Some((memory.plan.clone(), loaded))
}

fn compared(
    plan: &Plan,
    facts: &BusFacts,
    replicas: u8,
    found: Read,
    loaded: Option<&str>,
) -> Vec<Held> {
    let mut held = match found.on_server {
        Ok(on_server) => definitions(plan, facts, replicas, &on_server),
        Err(error) => vec![Held::Unread("what the server holds", error.to_string())],
    };
    match found.users {
        Some(Ok(on_disk)) => held.extend(users(plan, on_disk.as_deref(), loaded)),
        None => {}
        Some(Err(error)) => held.push(Held::Unread("the users file", error.to_string())),
    }
    held
}

fn under_way() -> Finding {
    Finding {
        warning: true,
        text: "the server is being brought to what was derived, so that what it holds was not looked at; run `meshctl doctor` again"
            .to_owned(),
    }
}

/// How often it is looked when what is derived changes meanwhile.
const LOOKS: usize = 3;
/// How long an assertion under way is waited for.
const AWAITED: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use std::future::pending;

    use mesh_derive::{Bounds, derive};
    use mesh_model::Records;

    use super::*;

    fn plan() -> Plan {
        let records = Records::new("home".parse().unwrap(), BusFacts::default());
        derive(&records, &Bounds::default())
    }

    fn asserted_last() -> Mutex<Memory> {
        let mut memory = Memory::default();
        memory.plan = Some(plan());
        Mutex::new(memory)
    }

    fn away() -> BusError {
        BusError::Away("it does not answer".to_owned())
    }

    fn texts(found: &[Finding]) -> Vec<&str> {
        found.iter().map(|it| it.text.as_str()).collect()
    }

    #[tokio::test]
    async fn an_assertion_does_not_wait_for_a_server_that_does_not_answer_whoever_looks() {
        let memory = asserted_last();
        let stalled = look(&memory, BusFacts::default(), 1, |_| pending::<Read>());
        tokio::pin!(stalled);
        tokio::select! {
            biased;
            _ = &mut stalled => panic!("nothing was read"),
            () = std::future::ready(()) => {}
        }
        assert!(
            memory.try_lock().is_ok(),
            "the look holds what an assertion needs"
        );
    }

    #[tokio::test]
    async fn what_cannot_be_read_is_told_beside_what_can() {
        let memory = asserted_last();
        let found = look(&memory, BusFacts::default(), 1, |_| async {
            Read {
                on_server: Err(away()),
                users: Some(Ok(None)),
            }
        });
        let found = found.await;
        let [server, users] = texts(&found)[..] else {
            panic!("{found:?}");
        };
        assert!(
            server.starts_with("what the server holds could not be read"),
            "{server}"
        );
        assert!(server.contains("it does not answer"), "{server}");
        assert!(users.starts_with("users file: there is none"), "{users}");
        let found = look(&memory, BusFacts::default(), 1, |_| async {
            Read {
                on_server: Err(away()),
                users: Some(Err(away())),
            }
        });
        assert_eq!(found.await.len(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn an_assertion_under_way_is_said_instead_of_half_of_what_it_made() {
        let memory = asserted_last();
        let _asserting = memory.lock().await;
        let found = look(&memory, BusFacts::default(), 1, |_| pending::<Read>()).await;
        assert!(texts(&found)[0].contains("being brought to"), "{found:?}");
    }

    #[tokio::test]
    async fn what_was_asserted_while_it_was_read_is_looked_at_once_more() {
        let memory = asserted_last();
        let reads = std::cell::Cell::new(0);
        let found = look(&memory, BusFacts::default(), 1, |_| async {
            reads.set(reads.get() + 1);
            if reads.get() == 1 {
                memory.lock().await.plan.as_mut().unwrap().streams.clear();
            }
            Read {
                on_server: Err(away()),
                users: None,
            }
        });
        assert_eq!(found.await.len(), 1);
        assert_eq!(reads.get(), 2);
    }
}
