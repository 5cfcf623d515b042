//! What differs from one version of the broker to another, held as facts: what is derived goes by them.

use anyhow::Context;
use lapin::options::{
    BasicGetOptions, BasicPublishOptions, BasicRejectOptions, ConfirmSelectOptions,
};
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties};
use mesh_derive::topology::{BrokerVersion, QueueKind};
use serde_json::{Value, json};

use crate::site::Site;

/// With what the names of the virtual hosts of these tests begin.
pub(crate) const OTHERS: &str = "mesh-live-tests-";

/// From when on a broker counts how often a message came back to a quorum queue, unless a policy says not to.
const COUNTS: BrokerVersion = BrokerVersion::new(4, 0, 0);

/// More often than a quorum queue that counts lets a message come back.
const OFTEN: usize = 25;

/// An empty virtual host that whoever manages the broker may use.
fn vhost(site: &Site, name: &str) -> anyhow::Result<String> {
    let vhost = format!("{OTHERS}{name}");
    let management = site.management();
    management.ask("DELETE", &format!("vhosts/{vhost}"), None)?;
    management.send("PUT", &format!("vhosts/{vhost}"), &json!({}))?;
    enter(site, &vhost)?;
    Ok(vhost)
}

/// Lets whoever manages the broker use a virtual host.
fn enter(site: &Site, vhost: &str) -> anyhow::Result<()> {
    let (user, _) = site.management().credentials()?;
    let all = json!({"configure": ".*", "write": ".*", "read": ".*"});
    site.management()
        .send("PUT", &format!("permissions/{vhost}/{user}"), &all)
}

async fn channel(site: &Site, vhost: &str) -> anyhow::Result<(Connection, Channel)> {
    let (user, password) = site.management().credentials()?;
    let url = format!("amqp://{user}:{password}@{}/{vhost}", site.broker.amqp());
    let connection = Connection::connect(&url, ConnectionProperties::default()).await?;
    let channel = connection.create_channel().await?;
    Ok((connection, channel))
}

/// Whether a message is still in its queue after it was refused often.
async fn survives(channel: &Channel, queue: &str) -> anyhow::Result<bool> {
    channel
        .confirm_select(ConfirmSelectOptions::default())
        .await?;
    let persistent = BasicProperties::default().with_delivery_mode(2);
    let options = BasicPublishOptions::default();
    let publishing = channel.basic_publish("".into(), queue.into(), options, b"x", persistent);
    publishing.await?.await?;
    for _ in 0..OFTEN {
        let options = BasicGetOptions { no_ack: false };
        let Some(message) = channel.basic_get(queue.into(), options).await? else {
            return Ok(false);
        };
        let back = BasicRejectOptions { requeue: true };
        message.delivery.acker.reject(back).await?;
    }
    let options = BasicGetOptions { no_ack: true };
    Ok(channel.basic_get(queue.into(), options).await?.is_some())
}

/// A controller that stops while it holds a report gives it back, and may do so any number of times.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_that_came_back_often_is_kept_by_what_is_derived_and_from_4_0_on_by_nothing_else()
-> anyhow::Result<()> {
    let Some(site) = Site::shared()? else {
        return Ok(());
    };
    let counts = site.topology.broker.version >= COUNTS;
    let vhost = format!("{OTHERS}quorum");
    let derived = Site::import(site.broker, &vhost, QueueKind::Quorum)?;
    enter(site, &vhost)?;
    let queues = derived.topology.queues.keys();
    let mut reports = queues.filter(|it| it.name() == "ctl.report");
    let class = reports.next().context("reports have a queue")?.class();
    let settings = derived.topology.policies[&class].settings();
    let limit = counts.then(|| json!(-1));
    assert_eq!(settings.get("delivery-limit"), limit.as_ref());

    let (connection, channel) = channel(site, &vhost).await?;
    assert!(survives(&channel, "ctl.report").await?, "as derived");
    let plain = json!({"durable": true, "arguments": {"x-queue-type": "quorum"}});
    site.management()
        .send("PUT", &format!("queues/{vhost}/plain"), &plain)?;
    assert_eq!(
        survives(&channel, "plain").await?,
        !counts,
        "without a policy"
    );
    connection.close(200, "done".into()).await?;
    Ok(())
}

#[test]
fn a_policy_may_lift_the_limit_of_deliveries_and_of_holding_from_4_0_on_and_not_before()
-> anyhow::Result<()> {
    let Some(site) = Site::shared()? else {
        return Ok(());
    };
    let counts = site.topology.broker.version >= COUNTS;
    let vhost = vhost(site, "policies")?;
    for (name, value) in [("delivery-limit", -1), ("consumer-timeout", 3_600_000)] {
        let policy = json!({"pattern": "^q$", "apply-to": "queues", "definition": {name: value}});
        let path = format!("policies/{vhost}/{name}");
        let status = put(site, &path, &policy)?;
        assert_eq!(status, if counts { 201 } else { 400 }, "{name}");
    }
    // What every version takes, so that the answer is about the limit.
    let policy = json!({"pattern": "^q$", "apply-to": "queues", "definition": {"max-length": 1}});
    let status = put(site, &format!("policies/{vhost}/max-length"), &policy)?;
    assert_eq!(status, 201);
    Ok(())
}

fn put(site: &Site, path: &str, document: &Value) -> anyhow::Result<u16> {
    let answer = site
        .management()
        .ask("PUT", path, Some(&document.to_string()))?;
    Ok(answer.status)
}

/// Before 4.0 an import says that it went well and leaves the binding out. So what was imported is read back.
#[test]
fn an_import_with_a_binding_from_nowhere_is_refused_from_4_0_on_and_before_it_is_left_out()
-> anyhow::Result<()> {
    let Some(site) = Site::shared()? else {
        return Ok(());
    };
    let refuses = site.topology.broker.version >= BrokerVersion::new(4, 0, 0);
    let vhost = vhost(site, "bindings")?;
    let queue = json!({
        "name": "q", "vhost": vhost, "durable": true, "auto_delete": false,
        "arguments": {"x-queue-type": "classic"},
    });
    let binding = json!({
        "source": "nowhere", "vhost": vhost, "destination": "q", "destination_type": "queue",
        "routing_key": "key", "arguments": {},
    });
    let document = json!({"queues": [queue], "bindings": [binding]}).to_string();
    let management = site.management();
    let answer = management.ask("POST", "definitions", Some(&document))?;
    assert_eq!(
        answer.status,
        if refuses { 400 } else { 204 },
        "{}",
        answer.body
    );
    let bindings = management.get(&format!("bindings/{vhost}"))?;
    let mut each = bindings.as_array().unwrap().iter();
    assert!(!each.any(|it| it["source"] == "nowhere"), "{bindings}");
    Ok(())
}
