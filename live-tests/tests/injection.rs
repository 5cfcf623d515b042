//! The trick of the reply: a server answers an ack or a report on whatever subject its sender wrote, with its own
//! rights. Nothing comes of it, because nothing that senders reach is where JetStream is; in one account, all of it does.

use std::time::Duration;

use futures_util::StreamExt;
use live_tests::{Founding, KeyRing, Mesh, Rogue, Server, Shape, Snapshot, eventually, soon};
use mesh_bus::{ControllerBus, JoinerBus};
use mesh_control::Command;
use mesh_derive::{Bounds, derive, subject};
use mesh_model::{
    BoxPublicKey, Enrolment, EnrolmentAnswer, EnrolmentRefusal, Labels, NodeName, NodeRecord,
    Principal, Records, Subject, Timestamp, TokenId,
};
use mesh_wire::{SignedKind, decode_enrolment_answer, encode_enrolment};

/// Where a server would do harm if it answered there with its own rights.
const REPLIES: [&str; 9] = [
    "$JS.API.STREAM.DELETE.NODES",
    "$JS.API.STREAM.PURGE.NODES",
    "$JS.API.STREAM.DELETE.CONTROL",
    "$JS.API.CONSUMER.DELETE.NODES.n2",
    "mesh.deliver.node.n2",
    "mesh.node.n2.declare",
    "mesh.control.report.n2",
    "mesh.control.enrol.t2",
    "mesh.ctl.epoch",
];

/// A mesh of a node that attacks, one that is attacked, and a holder of a token.
async fn mesh() -> anyhow::Result<Option<(Mesh, NodeName, NodeName, TokenId)>> {
    let Some(mut founding) = Founding::new().await? else {
        return Ok(None);
    };
    let (node, victim) = (founding.node("n1")?, founding.node("n2")?);
    let token = founding.token("t1")?;
    founding.token("t2")?;
    let mesh = founding.run().await?;
    Ok(Some((mesh, node, victim, token)))
}

/// What a node knows: the ack subject of the declaration it has in hand.
async fn ack_in_hand(rogue: &Rogue) -> anyhow::Result<String> {
    let mut ear = rogue.client().subscribe("mesh.deliver.node.n1").await?;
    let heard = soon("the declaration comes", ear.next()).await?;
    let reply = heard.and_then(|message| message.reply);
    Ok(reply.map(|reply| reply.to_string()).unwrap_or_default())
}

/// Nothing a server holds is another, but for what is the attacker's own.
async fn unchanged(mesh: &Mesh, before: &Snapshot, own: &[&str]) -> anyhow::Result<()> {
    let changes = mesh.tool.snapshot().await?.changes_since(before, own);
    anyhow::ensure!(changes.is_empty(), "{changes:#?}");
    Ok(())
}

/// What the attacker may change: where its own consumer stands, what waits of its own reports, and where the controller
/// stands that reads them.
const OF_THE_NODE: [&str; 3] = [
    "consumer NODES/n1",
    "CONTROL holds mesh.control.report.n1",
    "consumer CONTROL/controller",
];

#[tokio::test(flavor = "multi_thread")]
async fn an_ack_whose_answer_is_to_do_harm_changes_nothing() -> anyhow::Result<()> {
    let Some((mesh, node, ..)) = mesh().await? else {
        return Ok(());
    };
    let rogue = mesh.rogue(&Principal::Node(node)).await?;
    let ack = ack_in_hand(&rogue).await?;
    let before = mesh.tool.calm().await?;
    for reply in REPLIES {
        for body in ["+WPI", "+ACK", "-NAK", "+TERM"] {
            rogue.publish(&ack, Some(reply), body.as_bytes()).await?;
        }
    }
    unchanged(&mesh, &before, &OF_THE_NODE).await?;
    // The acks themselves were taken: the attack was carried out, not refused.
    let settled = async || {
        let own = live_tests::consumer(subject::nodes_stream(), "n1")?;
        Ok(mesh.tool.unsettled(&own).await? == 0)
    };
    eventually(Duration::from_secs(10), "its ack was taken", settled).await?;
    assert_eq!(rogue.refusals().await, Vec::<String>::new());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_report_whose_answer_is_to_do_harm_changes_nothing() -> anyhow::Result<()> {
    let Some((mesh, node, ..)) = mesh().await? else {
        return Ok(());
    };
    let rogue = mesh.rogue(&Principal::Node(node)).await?;
    let parked_before = mesh.tool.stored(&subject::parked_stream()).await?;
    let mut own = OF_THE_NODE.to_vec();
    own.push("PARKED holds mesh.parked.control.report.n1");
    let before = mesh.tool.calm().await?;
    for reply in REPLIES {
        let report = "mesh.control.report.n1";
        rogue.publish(report, Some(reply), b"no report").await?;
    }
    // Each was stored and taken: none can be read, so a copy of each is parked, and nothing else came.
    let parked = async || {
        let parked = mesh.tool.stored(&subject::parked_stream()).await?;
        Ok(parked - parked_before >= REPLIES.len() as u64)
    };
    eventually(Duration::from_secs(20), "they are parked", parked).await?;
    unchanged(&mesh, &before, &own).await?;
    let let_go = mesh.status().await?.tally.let_go;
    assert_eq!(let_go, REPLIES.len() as u64, "something else was let go");
    assert_eq!(rogue.refusals().await, Vec::<String>::new());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_enrolment_whose_answer_is_to_do_harm_changes_nothing() -> anyhow::Result<()> {
    let Some((mesh, _, _, token)) = mesh().await? else {
        return Ok(());
    };
    let rogue = mesh.rogue(&Principal::Joiner(token)).await?;
    let own = [
        "CONTROL holds mesh.control.enrol.t1",
        "consumer CONTROL/controller",
        "PARKED holds mesh.parked.control.enrol.t1",
    ];
    let before = mesh.tool.calm().await?;
    for reply in REPLIES {
        let ask = "mesh.control.enrol.t1";
        rogue.publish(ask, Some(reply), b"no request").await?;
    }
    let let_go = async || Ok(mesh.status().await?.tally.let_go >= REPLIES.len() as u64);
    eventually(Duration::from_secs(20), "they are let go", let_go).await?;
    unchanged(&mesh, &before, &own).await?;
    assert_eq!(rogue.refusals().await, Vec::<String>::new());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_enrolment_that_names_a_foreign_address_is_refused_into_its_own_inbox()
-> anyhow::Result<()> {
    let Some((mesh, _, victim, token)) = mesh().await? else {
        return Ok(());
    };
    let joiner = mesh.joiner(&token).await?;
    let own = ["consumer CONTROL/controller"];
    let before = mesh.tool.calm().await?;
    let new: NodeName = "new".parse()?;
    let own_inbox = subject::inbox_prefix(&Principal::Joiner(token.clone()));
    let lookalikes = [
        format!("{own_inbox}"),
        format!("{own_inbox}0.answer"),
        subject::enrolment_answer(&"t2".parse()?).to_string(),
        subject::inbox_prefix(&Principal::Node(victim)).to_string() + ".x",
        "_INBOX.x".to_owned(),
    ];
    for address in REPLIES.into_iter().map(str::to_owned).chain(lookalikes) {
        let request = Enrolment {
            node: Some(new.clone()),
            key: mesh.keys.public(&Principal::Node(new.clone()))?,
            box_key: mesh.keys.box_key(&new)?,
            reply: Subject::new(address.clone())?,
            clock: mesh_host::now(),
        };
        joiner.ask(encode_enrolment(&request)).await?;
        let body = soon("the refusal comes", joiner.answer()).await??;
        let body = mesh.verifier().open(SignedKind::EnrolmentAnswer, &body)?;
        let answer = decode_enrolment_answer(&body)?;
        assert!(
            matches!(
                answer,
                EnrolmentAnswer::Refused(EnrolmentRefusal::ForeignAddress { .. })
            ),
            "{address}: {answer:?}"
        );
    }
    let empty = async || Ok(mesh.tool.stored(&subject::control_stream()).await? == 0);
    eventually(Duration::from_secs(10), "CONTROL is empty", empty).await?;
    unchanged(&mesh, &before, &own).await?;
    assert_eq!(mesh.status().await?.nodes.len(), 2);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_can_be_made_appear_on_a_nodes_deliver_subject_is_not_acted_on() -> anyhow::Result<()>
{
    let Some((mesh, node, victim, token)) = mesh().await? else {
        return Ok(());
    };
    let agent = mesh.agent(&victim).await?;
    let told = mesh.told(&victim).await?;
    // Another client with the victim's credential sees what the victim is sent.
    let witness = mesh.rogue(&Principal::Node(victim.clone())).await?;
    let deliver = subject::deliver_node(&victim);
    let mut sees = witness.client().subscribe(deliver.to_string()).await?;
    witness.client().flush().await?;
    let rogue = mesh.rogue(&Principal::Node(node)).await?;
    let joiner = mesh.rogue(&Principal::Joiner(token)).await?;
    let ack = ack_in_hand(&rogue).await?;
    for (who, on, body) in [
        (&rogue, ack.as_str(), "+WPI"),
        (&rogue, "mesh.control.report.n1", "x"),
        (&joiner, "mesh.control.enrol.t1", "x"),
    ] {
        who.publish(on, Some(deliver.as_str()), body.as_bytes())
            .await?;
        let seen = soon("the server's answer appears", sees.next()).await?;
        // Only the server's own words, on the deliver subject itself, and never with an ack to give.
        let seen = seen.map(|message| (message.subject.to_string(), message.reply));
        assert_eq!(seen, Some((deliver.to_string(), None)), "{on}");
    }
    assert_eq!(agent.workloads.carried_out(), [told.generation]);
    // It has passed over them: the next declaration comes after them, and is the next thing it does.
    let labels: Labels = [("room".parse()?, "two".parse()?)].into();
    let label = Command::Label {
        node: victim.clone(),
        labels,
    };
    mesh.command(label).await?;
    let next = live_tests::manifest("next")?;
    mesh.apply(next, Some(live_tests::placed_on(&victim)))
        .await?;
    let next = mesh.told(&victim).await?;
    agent.applies(&next).await?;
    assert_eq!(
        agent.workloads.carried_out(),
        [told.generation, next.generation]
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn in_one_account_the_same_ack_deletes_the_stream() -> anyhow::Result<()> {
    let Some(server) = Server::start(Shape::OneAccount).await? else {
        return Ok(());
    };
    let (keys, node): (_, NodeName) = (KeyRing::default(), "n1".parse()?);
    let who = Principal::Node(node.clone());
    let mut records = Records::new("live".parse()?, Server::facts());
    let record = NodeRecord {
        bus: mesh_model::BusKind::Nats,
        moving: None,
        key: keys.public(&who)?,
        box_key: BoxPublicKey::from_raw([0; 32]),
        labels: Labels::new(),
        token: "spent".parse()?,
        enrolled: Timestamp::default(),
        scheduling: mesh_model::Scheduling::Open,
    };
    records.nodes.insert(node.clone(), record);
    let plan = derive(&records, &Bounds::default());
    server.serve_all_in_one_account(&plan).await?;
    let controller = server.controller().await?;
    controller.assert(&plan).await?;
    controller.take_over().await?;
    controller.declare(&node, b"one".to_vec()).await?;
    let rogue = server.rogue(&keys.user(&who)?, &who).await?;
    let ack = ack_in_hand(&rogue).await?;
    rogue
        .publish(&ack, Some("$JS.API.STREAM.DELETE.NODES"), b"+ACK")
        .await?;
    let tool = server.tool().await?;
    let gone = async || Ok(tool.stream(&subject::nodes_stream()).await?.is_none());
    eventually(Duration::from_secs(10), "the stream is deleted", gone).await?;
    assert_eq!(rogue.refusals().await, Vec::<String>::new());
    Ok(())
}
