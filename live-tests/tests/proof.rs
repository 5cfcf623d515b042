//! A running server is held to a plan: it holds it, and one that holds another is found out, by principal and act.

#[path = "proof/edit.rs"]
mod edit;
#[path = "proof/harmless.rs"]
mod harmless;
#[path = "proof/stage.rs"]
mod stage;
#[path = "proof/vouched.rs"]
mod vouched;

use std::collections::BTreeSet;

use anyhow::Context;
use live_tests::Shape;
use mesh_derive::proof::{Act, Expected, Extent};
use mesh_derive::{Plan, subject};
use mesh_model::{NodeName, Principal};
use mesh_nats::proof::{Difference, Found, Proof, prove, prove_one};

use edit::Edit::{self, Less, More};
use edit::Entry::{Publish, Queue, Subscribe};
use stage::Stage;

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_holds_the_plan_is_proven_to_and_nothing_is_left_behind() -> anyhow::Result<()>
{
    let Some(stage) = Stage::new(Shape::Derived).await? else {
        return Ok(());
    };
    stage.serve(&stage.plan).await?;
    stage.live_through_something().await?;
    let before = stage.state().await?;
    let proof = stage.prove().await?;
    assert_eq!(stage.state().await?, before);
    assert_eq!(said(&proof.differences), Vec::<String>::new());
    let proven: BTreeSet<&Principal> = proof.principals.keys().collect();
    assert_eq!(proven, stage.plan.grants.keys().collect());
    for (principal, tried) in &proof.principals {
        let grant = &stage.plan.grants[principal];
        // A module has no key but the prober's, and no inbox; what is delivered to it, and what comes of a reply, is
        // proven of its instances.
        let is_module = matches!(principal, Principal::Module(_));
        assert_eq!(tried.untried > 0, is_module, "{principal}");
        let unheard = if is_module { grant.queues.len() } else { 0 };
        assert_eq!(tried.allowed + unheard, grant.entries() + 1, "{principal}");
        assert!(tried.refused > 200, "{principal}: {tried:?}");
        let injected = if is_module || *principal == Principal::Controller {
            0
        } else {
            grant.publish.len() * 3
        };
        assert_eq!(tried.injections, injected, "{principal}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_declaration_a_node_has_not_heard_yet_still_waits_for_it() -> anyhow::Result<()> {
    let Some(stage) = Stage::new(Shape::Derived).await? else {
        return Ok(());
    };
    stage.serve(&stage.plan).await?;
    let node: NodeName = "node1".parse()?;
    stage.declare(&node, "do this").await?;
    let proof = stage.prove().await?;
    assert_eq!(said(&proof.differences), Vec::<String>::new());
    let heard = stage.hears_declaration(&node).await?;
    assert_eq!(heard, "do this");
    Ok(())
}

/// What is done to a plan, and which acts are to be found for it.
struct Change {
    who: &'static str,
    edit: Edit,
    found: &'static [&'static str],
}

/// One entry more, or wider by a wildcard. What is found begins with one of these.
const WIDER: [Change; 14] = [
    Change {
        who: "node/node1",
        edit: More(&[Publish("mesh.log.*")]),
        found: &["publish mesh.log."],
    },
    Change {
        who: "node/node10",
        edit: More(&[Subscribe("mesh.inbox.node.node1.ask")]),
        found: &["subscribe mesh.inbox.node.node1.ask"],
    },
    Change {
        who: "module/mailer",
        edit: More(&[Subscribe("mesh.heartbeat.>")]),
        found: &["subscribe mesh.heartbeat."],
    },
    Change {
        who: "node/node1",
        edit: More(&[Publish("mesh.control.report.*")]),
        found: &["publish mesh.control.report."],
    },
    Change {
        who: "node/5",
        edit: More(&[Publish("$JS.ACK.*.*.NODES.5.>")]),
        found: &["publish $JS.ACK."],
    },
    Change {
        who: "node/node1",
        edit: More(&[Publish("$JS.ACK.NODES.node10.>")]),
        found: &["publish $JS.ACK.NODES.node10."],
    },
    Change {
        who: "module/w@w",
        edit: More(&[Publish("mesh.mod.w.>")]),
        found: &["publish mesh.mod.w."],
    },
    Change {
        who: "module/shop",
        edit: More(&[Publish("mesh.mod.*.announced")]),
        found: &["publish mesh.mod."],
    },
    Change {
        who: "module/mailer@node1",
        edit: More(&[Subscribe("mesh.deliver.module.mailer")]),
        found: &["subscribe mesh.deliver.module.mailer"],
    },
    Change {
        who: "module/mailer@node10",
        edit: More(&[Queue("mesh.deliver.seat.*", "mail")]),
        found: &["subscribe mesh.deliver.seat."],
    },
    Change {
        who: "joiner/w",
        edit: More(&[Subscribe("mesh.inbox.>")]),
        found: &["subscribe mesh.inbox."],
    },
    Change {
        who: "node/w",
        edit: More(&[Publish("$JS.API.STREAM.PURGE.EVENTS")]),
        found: &["publish $JS.API.STREAM.PURGE.EVENTS"],
    },
    Change {
        who: "joiner/t1",
        edit: More(&[Publish("mesh.deliver.node.w")]),
        found: &["publish mesh.deliver.node.w"],
    },
    Change {
        who: "node/node10",
        edit: More(&[Subscribe("mesh.heartbeat.node10")]),
        found: &["subscribe mesh.heartbeat.node10"],
    },
];

#[tokio::test(flavor = "multi_thread")]
async fn a_grant_wider_by_one_wildcard_is_found_and_named() -> anyhow::Result<()> {
    let Some(stage) = Stage::new(Shape::Derived).await? else {
        return Ok(());
    };
    for change in WIDER {
        let (who, changed) = changed(&stage.plan, &change)?;
        stage.serve(&changed).await?;
        let before = stage.state().await?;
        let proof = stage.prove().await?;
        // Even what was wrongly allowed has left nothing behind.
        assert_eq!(stage.state().await?, before, "{who}");
        are_of(
            &proof,
            &who,
            change.found,
            (&Expected::Refused, &Found::Allowed),
        );
    }
    Ok(())
}

/// One entry less.
const NARROWER: [Change; 8] = [
    Change {
        who: "node/node10",
        edit: Less(&[Publish("mesh.log.node10")]),
        found: &["publish mesh.log.node10"],
    },
    Change {
        who: "node/node1",
        edit: Less(&[Publish("mesh.heartbeat.node1")]),
        found: &["publish mesh.heartbeat.node1"],
    },
    Change {
        who: "node/w",
        edit: Less(&[Publish("$JS.ACK._.znJdjy7f.NODES.w.>")]),
        found: &["publish $JS.ACK._.znJdjy7f.NODES.w."],
    },
    Change {
        who: "node/5",
        edit: Less(&[Subscribe("mesh.deliver.node.5")]),
        found: &["subscribe mesh.deliver.node.5"],
    },
    Change {
        who: "module/shop@node1",
        edit: Less(&[Publish("mesh.seat.mail.shop")]),
        found: &["publish mesh.seat.mail.shop"],
    },
    Change {
        who: "module/mailer@node1",
        edit: Less(&[Queue("mesh.deliver.seat.mail", "mail")]),
        found: &["subscribe mesh.deliver.seat.mail in group mail"],
    },
    Change {
        who: "joiner/t1",
        edit: Less(&[Subscribe("mesh.inbox.joiner.t1.>")]),
        found: &["subscribe mesh.inbox.joiner.t1.>"],
    },
    Change {
        who: "joiner/w",
        edit: Less(&[Publish("mesh.control.enrol.w")]),
        found: &["publish mesh.control.enrol.w"],
    },
];

#[tokio::test(flavor = "multi_thread")]
async fn a_grant_without_an_entry_is_found_and_named() -> anyhow::Result<()> {
    let Some(stage) = Stage::new(Shape::Derived).await? else {
        return Ok(());
    };
    for change in NARROWER {
        let (who, changed) = changed(&stage.plan, &change)?;
        stage.serve(&changed).await?;
        let proof = stage.prove().await?;
        assert!(!proof.holds(), "{who}: {:?}", change.found);
        for difference in &proof.differences {
            let act = difference.act.to_string();
            assert_eq!(difference.principal, who, "{difference}");
            assert_eq!(difference.found, Found::Refused, "{difference}");
            assert!(act.starts_with(change.found[0]), "{difference}");
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_controller_that_may_more_than_it_does_is_found() -> anyhow::Result<()> {
    let Some(stage) = Stage::new(Shape::ControllerMay("mesh.mod.>")).await? else {
        return Ok(());
    };
    stage.serve(&stage.plan).await?;
    let proof = stage.prove().await?;
    let found = ["publish mesh.mod."];
    let as_it_is = (&Expected::Refused, &Found::Allowed);
    are_of(&proof, &Principal::Controller, &found, as_it_is);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn in_one_account_every_reply_to_the_api_is_seen_to_reach_it() -> anyhow::Result<()> {
    let Some(stage) = Stage::new(Shape::OneAccount).await? else {
        return Ok(());
    };
    stage.serve(&stage.plan).await?;
    let node: Principal = "node/node1".parse()?;
    let keys = stage.keys_of(|who| *who == node)?;
    let proof = prove(&stage.proving, &stage.plan, &keys).await?;
    let of_node = proof.differences.iter().filter(|it| it.principal == node);
    let reached: BTreeSet<String> = of_node
        .filter(|it| matches!(it.found, Found::Effect(_)))
        .map(|it| it.act.to_string())
        .collect();
    // What a stream or a consumer answers: the report and both forms of ack, but nobody answers a heartbeat.
    for published in ["mesh.control.report.node1", "$JS.ACK.NODES.node1."] {
        for verb in ["DELETE", "PURGE", "CREATE"] {
            let reply = format!(" with the reply $JS.API.STREAM.{verb}.");
            let seen = |act: &&String| {
                act.starts_with(&format!("publish {published}")) && act.contains(&reply)
            };
            assert!(
                reached.iter().any(|act| seen(&act)),
                "{published} {verb}: {reached:#?}"
            );
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn one_act_is_tried_alone() -> anyhow::Result<()> {
    let Some(stage) = Stage::new(Shape::Derived).await? else {
        return Ok(());
    };
    stage.serve(&stage.plan).await?;
    for (who, act, found) in [
        (
            "node/node1",
            Act::Publish("mesh.heartbeat.node1".parse()?),
            Found::Allowed,
        ),
        (
            "node/node1",
            Act::Publish("mesh.heartbeat.node10".parse()?),
            Found::Refused,
        ),
        (
            "module/shop@node1",
            Act::Publish("mesh.mod.shop.order.placed".parse()?),
            Found::Allowed,
        ),
        ("joiner/t1", Act::Connect, Found::Allowed),
        (
            "controller",
            Act::Publish("mesh.mod.shop.order.placed".parse()?),
            Found::Refused,
        ),
        (
            "node/node1",
            Act::Inject {
                subject: subject::report(&"node1".parse()?),
                reply: "$JS.API.STREAM.DELETE.MESH-PROBE".parse()?,
            },
            Found::NoEffect,
        ),
    ] {
        let who: Principal = who.parse()?;
        let key = stage.key(&who)?;
        let outcome = prove_one(&stage.proving, &stage.plan, &who, &key, &act).await?;
        assert_eq!(outcome.found, found, "{who} {act}");
        assert!(outcome.agrees(), "{who} {act}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn somebody_the_server_does_not_know_is_a_difference_and_no_failure() -> anyhow::Result<()> {
    let Some(mut stage) = Stage::new(Shape::Derived).await? else {
        return Ok(());
    };
    stage.forget("joiner/t1")?;
    stage.serve(&stage.plan).await?;
    stage.proving.extent = Extent::Nearest(2);
    let proof = stage.prove().await?;
    let expected = ["joiner/t1 connect: must be allowed, and was refused"];
    assert_eq!(said(&proof.differences), expected);
    let joiner = &proof.principals[&"joiner/t1".parse()?];
    assert!(joiner.untried > 0, "{joiner:?}");
    Ok(())
}

fn changed(plan: &Plan, change: &Change) -> anyhow::Result<(Principal, Plan)> {
    let (who, mut changed): (Principal, _) = (change.who.parse()?, plan.clone());
    let grant = changed.grants.get_mut(&who);
    let grant = grant.with_context(|| format!("{who} has no grant"))?;
    let made = change.edit.make(grant);
    made.with_context(|| who.to_string())?;
    Ok((who, changed))
}

/// All that was found is of this principal, begins with one of these, and is as it is.
fn are_of(proof: &Proof, who: &Principal, acts: &[&str], (expected, found): (&Expected, &Found)) {
    assert!(!proof.holds(), "{who}: {acts:?}");
    for difference in &proof.differences {
        let act = difference.act.to_string();
        assert!(
            acts.iter().any(|begins| act.starts_with(begins)),
            "{difference}"
        );
        assert_eq!(&difference.principal, who, "{difference}");
        assert_eq!(&difference.expected, expected, "{difference}");
        assert_eq!(&difference.found, found, "{difference}");
    }
}

fn said(differences: &[Difference]) -> Vec<String> {
    differences.iter().map(Difference::to_string).collect()
}
