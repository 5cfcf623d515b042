//! What a running RabbitMQ lets each user do is what was derived, and where it is not a proof says so; nothing of it stays.

#[path = "proof_amqp/stage.rs"]
mod stage;

use std::collections::BTreeSet;

use anyhow::{Context, ensure};
use live_tests::AmqpWorld;
use mesh_bus::conformance::World;
use mesh_bus::{Attempted, ControllerBus, NodeBus, Prober, UnprovenError};
use mesh_derive::proof::Act;
use mesh_derive::topology::BrokerVersion;
use mesh_derive::{Bounds, derive};
use mesh_model::{NodeName, Principal};
use serde_json::json;

use stage::{Stage, names, prober, records};

macro_rules! on_a_broker {
    ($($name:ident)*) => {$(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $name() -> anyhow::Result<()> {
            match AmqpWorld::start().await? {
                Some(world) => claims::$name(&Stage::new(&world).await?).await,
                None => Ok(()),
            }
        }
    )*};
}

on_a_broker! {
    a_broker_that_was_brought_to_a_plan_is_proven_to_hold_it
    a_permission_wider_by_one_wildcard_is_found_and_named
    a_queue_too_many_that_may_be_read_is_found_and_named
    a_right_to_configure_is_found_and_makes_and_removes_nothing
    a_binding_too_many_is_found
    a_user_the_broker_does_not_know_is_found
    nothing_that_waits_is_taken_by_a_proof_and_nothing_stays
    guests_left_behind_are_removed_with_the_next_assertion
    what_one_may_is_asked_of_the_broker
    another_plan_than_the_asserted_one_is_not_proven
}

mod claims {
    use super::*;

    pub(super) async fn a_broker_that_was_brought_to_a_plan_is_proven_to_hold_it(
        stage: &Stage<'_>,
    ) -> anyhow::Result<()> {
        let before = stage.held()?;
        let proven = stage.prove().await?;
        let version = stage.controller.broker_facts().version;
        for row in &proven {
            ensure!(row.differences.is_empty(), "{row:#?}");
            ensure!(
                row.allowed > 0 && row.refused > 50 && row.untried == 0,
                "{row:?}"
            );
            // Before 4.0.3 a second key is the reader's to hold.
            let held = if version < BrokerVersion::PROVES_SENDER {
                row.injections
            } else {
                0
            };
            ensure!(row.held == held, "{version}: {row:?}");
        }
        let tried: usize = proven.iter().map(|row| row.injections).sum();
        ensure!(tried > 20, "{tried} second keys were tried");
        let who: BTreeSet<String> = proven.iter().map(|it| it.principal.to_string()).collect();
        for principal in ["controller", "node/w", "module/w", "module/w@w", "joiner/w"] {
            ensure!(who.contains(principal), "{who:?}");
        }
        ensure!(stage.held()? == before, "something stays");
        Ok(())
    }

    pub(super) async fn a_permission_wider_by_one_wildcard_is_found_and_named(
        stage: &Stage<'_>,
    ) -> anyhow::Result<()> {
        let user = stage.user("node/node1")?;
        let path = format!("topic-permissions/{}/{user}", stage.world.vhost());
        let wider = json!({ "exchange": "mesh.ctl", "write": "^report\\..+\\z", "read": "^\\z" });
        stage.world.tool().send("PUT", &path, &wider)?;
        let found = stage.differences().await?;
        let named = "node/node1 publish mesh.ctl \"report.w\": must be refused, and was allowed";
        ensure!(names(&found, named), "{found:#?}");
        ensure!(
            found.iter().all(|it| it.starts_with("node/node1")),
            "{found:#?}"
        );
        // As derived again, it is.
        stage.controller.assert(&stage.plan).await?;
        let found = stage.differences().await?;
        ensure!(found.is_empty(), "{found:#?}");
        Ok(())
    }

    pub(super) async fn a_queue_too_many_that_may_be_read_is_found_and_named(
        stage: &Stage<'_>,
    ) -> anyhow::Result<()> {
        let user = stage.user("module/shop@node1")?;
        let vhost = stage.world.vhost();
        let row =
            json!({ "configure": "^\\z", "write": "^mesh\\.(ev|seat)\\z", "read": "^seat\\.w\\z" });
        stage
            .controller
            .declare(&"w".parse()?, b"waits".to_vec())
            .await?;
        let path = format!("permissions/{vhost}/{user}");
        stage.world.tool().send("PUT", &path, &row)?;
        let before = stage.held()?;
        let found = stage.differences().await?;
        let named = "module/shop@node1 consume seat.w: must be refused, and was allowed";
        ensure!(names(&found, named), "{found:#?}");
        // What it could do besides is not tried, and said by the permissions.
        ensure!(!names(&found, "module/shop@node1 purge"), "{found:#?}");
        ensure!(
            names(
                &found,
                "module/shop@node1: the broker has for the permissions read"
            ),
            "{found:#?}"
        );
        ensure!(stage.held()? == before, "something stays");
        Ok(())
    }

    pub(super) async fn a_right_to_configure_is_found_and_makes_and_removes_nothing(
        stage: &Stage<'_>,
    ) -> anyhow::Result<()> {
        let user = stage.user("node/node1")?;
        let path = format!("permissions/{}/{user}", stage.world.vhost());
        // Everything: each attempt there is goes through, and nothing comes of any.
        let all = json!({ "configure": ".*", "write": ".*", "read": ".*" });
        stage.world.tool().send("PUT", &path, &all)?;
        stage
            .world
            .node(&"node10".parse()?)
            .await?
            .report(b"waits".to_vec())
            .await?;
        stage
            .controller
            .declare(&"w".parse()?, b"waits".to_vec())
            .await?;
        let before = stage.held()?;
        let found = stage.differences().await?;
        for named in [
            "declare queue node.w",
            "declare queue mesh-probe",
            "declare exchange mesh.ctl",
            "declare exchange mesh-probe",
            "consume ctl.report",
            "bind queue node.w and mesh.decl by \"mesh-probe\"",
            "bind exchange",
            "publish the default exchange \"node.w\"",
            "publish amq.topic",
        ] {
            ensure!(
                names(&found, &format!("node/node1 {named}")),
                "{named}: {found:#?}"
            );
        }
        for untried in ["delete", "purge", "get", "unbind"] {
            ensure!(
                !names(&found, &format!("node/node1 {untried}")),
                "{found:#?}"
            );
        }
        ensure!(stage.held()? == before, "something stays");
        Ok(())
    }

    pub(super) async fn a_binding_too_many_is_found(stage: &Stage<'_>) -> anyhow::Result<()> {
        let path = format!("bindings/{}/e/mesh.ev/q/mod.w", stage.world.vhost());
        stage
            .world
            .tool()
            .send("POST", &path, &json!({ "routing_key": "#" }))?;
        let found = stage.differences().await?;
        let named = "module/w@w: the broker binds mod.w to mesh.ev #, which is not derived";
        ensure!(found.contains(&named.to_owned()), "{found:#?}");
        Ok(())
    }

    pub(super) async fn a_user_the_broker_does_not_know_is_found(
        stage: &Stage<'_>,
    ) -> anyhow::Result<()> {
        let user = stage.user("node/w")?;
        stage
            .world
            .tool()
            .ask("DELETE", &format!("users/{user}"), None)?;
        let proven = stage.prove().await?;
        let row = proven
            .iter()
            .find(|row| row.principal.to_string() == "node/w");
        let row = row.context("it is proven")?;
        ensure!(
            names(
                &row.differences,
                "node/w connect: must be allowed, and was refused"
            ),
            "{row:#?}"
        );
        ensure!(row.untried > 10, "{row:?}");
        Ok(())
    }

    pub(super) async fn nothing_that_waits_is_taken_by_a_proof_and_nothing_stays(
        stage: &Stage<'_>,
    ) -> anyhow::Result<()> {
        let node: NodeName = "w".parse()?;
        let instance = |text: &str| anyhow::Ok(text.parse::<Principal>()?);
        let Principal::Instance(shop) = instance("module/shop@node1")? else {
            anyhow::bail!("it is an instance");
        };
        let module = stage.world.module(&shop).await?;
        for nth in 0..3_u8 {
            use mesh_bus::ModuleBus;
            let id = format!("id{nth}");
            module.send(&"w".parse()?, &id, vec![b'0' + nth]).await?;
            module
                .emit(&"order.placed".parse()?, &id, vec![b'0' + nth])
                .await?;
        }
        stage.controller.declare(&node, b"first".to_vec()).await?;
        let before = stage.held()?;
        ensure!(
            before
                .get("queues")
                .and_then(|queues| queues.get("seat.w")?.as_array())
                .map(Vec::len)
                == Some(3),
            "{before:#?}"
        );
        let found = stage.differences().await?;
        ensure!(found.is_empty(), "{found:#?}");
        ensure!(stage.held()? == before, "something else waits");
        Ok(())
    }

    pub(super) async fn guests_left_behind_are_removed_with_the_next_assertion(
        stage: &Stage<'_>,
    ) -> anyhow::Result<()> {
        let left = format!("{}probe.0123456789abcdef.0", stage.world.endpoint().users);
        let path = format!("users/{left}");
        let tool = stage.world.tool();
        tool.send("PUT", &path, &json!({ "password": "x", "tags": "" }))?;
        let asserted = stage.controller.assert(&stage.plan).await?;
        ensure!(
            asserted.written == [format!("user {left}: removed")],
            "{asserted:?}"
        );
        ensure!(
            tool.ask("GET", &path, None)?.status == 404,
            "it is still there"
        );
        // A proof that nobody waits for any more leaves some, which the controller is told to see to.
        let probers: Vec<Prober> = stage
            .plan
            .grants
            .keys()
            .map(prober)
            .collect::<anyhow::Result<_>>()?;
        let proving = stage.controller.prove(&stage.plan, &probers);
        let begins = format!("{}probe.", stage.world.endpoint().users);
        let let_in = live_tests::eventually(
            std::time::Duration::from_secs(20),
            "a guest is let in",
            async || {
                Ok(tool
                    .get("users?columns=name")?
                    .to_string()
                    .contains(&begins))
            },
        );
        tokio::select! {
            proven = proving => anyhow::bail!("it was through at once: {proven:?}"),
            let_in = let_in => let_in?,
        };
        live_tests::soon("the controller is told", stage.controller.disturbed()).await?;
        stage.controller.assert(&stage.plan).await?;
        let again = stage.controller.assert(&stage.plan).await?;
        ensure!(
            again.written.is_empty() && again.strays.is_empty(),
            "{again:?}"
        );
        ensure!(
            stage.differences().await?.is_empty(),
            "it can be proven again"
        );
        Ok(())
    }

    pub(super) async fn what_one_may_is_asked_of_the_broker(
        stage: &Stage<'_>,
    ) -> anyhow::Result<()> {
        for (who, act, expected) in [
            ("node/w", "publish mesh.heartbeat.w", Some(true)),
            ("node/w", "publish mesh.heartbeat.node1", Some(false)),
            ("node/w", "publish mesh.log.w", Some(true)),
            ("node/w", "publish mesh.log.node1", Some(false)),
            ("node/w", "subscribe mesh.inbox.node.w.>", Some(true)),
            ("node/w", "subscribe mesh.inbox.node.node1.>", Some(false)),
            ("node/w", "subscribe mesh.log.>", Some(false)),
            ("controller", "subscribe mesh.log.>", Some(true)),
            ("node/w", "subscribe mesh.deliver.node.w", Some(true)),
            ("node/w", "subscribe mesh.deliver.node.node1", Some(false)),
            ("module/w@w", "publish mesh.mod.w.w", Some(true)),
            (
                "module/w",
                "publish mesh.mod.shop.order.placed",
                Some(false),
            ),
            ("module/shop@node1", "publish mesh.seat.w.shop", Some(true)),
            (
                "module/shop@node1",
                "publish mesh.seat.spare.shop",
                Some(false),
            ),
            ("joiner/w", "publish mesh.control.enrol.w", Some(true)),
            ("joiner/w", "subscribe mesh.inbox.joiner.w.>", Some(true)),
            ("node/w", "subscribe mesh.inbox.joiner.w.>", Some(false)),
            ("controller", "publish mesh.node.w.declare", Some(true)),
            ("controller", "subscribe mesh.heartbeat.>", Some(true)),
            ("controller", "publish $JS.API.INFO", None),
            ("node/w", "subscribe mesh.>", None),
        ] {
            let (verb, subject) = act.split_once(' ').context("a verb")?;
            let asked = match verb {
                "publish" => Act::Publish(subject.parse()?),
                _ => Act::Subscribe {
                    filter: subject.parse()?,
                    queue: None,
                },
            };
            let prober = prober(&who.parse()?)?;
            let found = stage.controller.attempt(&stage.plan, &prober, &asked).await;
            let found = match found {
                Ok(Attempted::Allowed(_)) => Some(true),
                Ok(Attempted::Refused(_)) => Some(false),
                Err(UnprovenError::CannotAsk(_)) => None,
                other => anyhow::bail!("{who} {act}: {other:?}"),
            };
            ensure!(found == expected, "{who} {act}: {found:?}");
        }
        Ok(())
    }

    pub(super) async fn another_plan_than_the_asserted_one_is_not_proven(
        stage: &Stage<'_>,
    ) -> anyhow::Result<()> {
        let mut records = records(stage.world)?;
        records.nodes.remove(&"node10".parse::<NodeName>()?);
        let other = derive(&records, &Bounds::default());
        let proven = stage.controller.prove(&other, &[Prober::Controller]).await;
        ensure!(proven == Err(UnprovenError::Changed), "{proven:?}");
        Ok(())
    }
}
