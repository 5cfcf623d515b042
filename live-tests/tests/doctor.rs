//! What somebody changes on a server behind the controller's back is named to whoever asks the doctor.

use live_tests::{KeyRing, Server, Shape};
use mesh_bus::ControllerBus;
use mesh_derive::{Bounds, derive};
use mesh_nats::NatsController;
use serde_json::json;

/// The warnings of a doctor, without what is said of a server that is as it was started.
async fn warnings(controller: &NatsController) -> anyhow::Result<Vec<String>> {
    let findings = controller.findings().await?;
    let warnings = findings.into_iter().filter(|finding| finding.warning);
    Ok(warnings
        .map(|finding| finding.text)
        .filter(|text| !text.contains("not encrypted"))
        .collect())
}

fn names(warnings: &[String], text: &str) -> bool {
    warnings.iter().any(|warning| warning.contains(text))
}

#[tokio::test]
async fn what_was_changed_behind_the_controllers_back_is_named() -> anyhow::Result<()> {
    let Some(server) = Server::start(Shape::Derived).await? else {
        return Ok(());
    };
    let keys = KeyRing::default();
    let records = keys.records_of(&["n1", "n2"])?;
    let controller = server.controller().await?;
    controller
        .assert(&derive(&records, &Bounds::default()))
        .await?;
    controller.take_over().await?;
    assert_eq!(warnings(&controller).await?, Vec::<String>::new());

    let tool = server.tool().await?;
    let spy = json!({ "stream_name": "EVENTS", "config": {
        "name": "spy", "durable_name": "spy", "ack_policy": "none" } });
    tool.api("CONSUMER.CREATE.EVENTS.spy", &spy).await?;
    let edited = json!({ "stream_name": "NODES", "config": {
        "name": "n1", "durable_name": "n1", "ack_policy": "explicit",
        "deliver_policy": "all", "deliver_subject": "mesh.deliver.node.n1",
        "filter_subject": "mesh.node.n2.declare", "ack_wait": 1_000_000_000_u64,
        "max_deliver": 3, "max_ack_pending": 1000, "idle_heartbeat": 30_000_000_000_u64 } });
    tool.api("CONSUMER.CREATE.NODES.n1", &edited).await?;
    let users = server.users_file();
    let text = std::fs::read_to_string(&users)?;
    let wider = text.replace("\"mesh.deliver.node.n2\"", "\"mesh.deliver.>\"");
    assert_ne!(text, wider);
    std::fs::write(&users, wider)?;

    let warnings = warnings(&controller).await?;
    for expected in [
        "consumer EVENTS/spy is nobody's",
        "consumer NODES/n1: filter_subjects is [\"mesh.node.n2.declare\"]",
        "consumer NODES/n1: max_deliver is 3",
        "consumer NODES/n1: ack_wait is 1000000000",
        "selects mesh.node.n2.declare, which node/n1 is not to read",
        "users file: it is not what the server was asked to read",
        "users file: node/n2 may subscribe mesh.deliver.>",
    ] {
        assert!(names(&warnings, expected), "{expected}: {warnings:#?}");
    }
    Ok(())
}
