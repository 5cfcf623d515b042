//! What is rendered and derived, on a real server: the file is read, every definition taken, everything allowed works
//! and everything of somebody else's is refused.
//!
//! Runs where `MESH_TEST_NATS` names a nats-server. Users connect by password there, since no key of theirs exists.

mod client;

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use mesh_derive::{Bounds, Plan, derive, render};
use mesh_model::{
    ConsumerKind, ConsumerSpec, DeliverPolicy, Discard, Filter, Principal, Records, Retention,
    Selects, StreamSpec,
};
use serde_json::{Value, json};

use self::client::{Client, PASSWORD, until};
use crate::common::{add_node, user_key};
use crate::golden;
use crate::operations::{Operation, operations};

fn nats_server() -> Option<PathBuf> {
    let path = std::env::var_os("MESH_TEST_NATS").map(PathBuf::from);
    if path.is_none() {
        assert!(
            std::env::var_os("CI").is_none(),
            "MESH_TEST_NATS is not set, and in CI every live test runs"
        );
        eprintln!("not run: MESH_TEST_NATS names no nats-server");
    }
    path
}

fn plan(records: &Records) -> Plan {
    derive(records, &Bounds::default())
}

fn write_conf(dir: &Path, plan: &Plan, keys: impl Fn(String) -> String) -> PathBuf {
    let accounts = render::nats_conf::accounts(plan, &user_key("controller"), &user_key("system"));
    let dir_text = dir.display();
    let head = format!(
        "listen: \"127.0.0.1:-1\"\nports_file_dir: \"{dir_text}\"\njetstream {{ store_dir: \"{dir_text}/js\" }}\n"
    );
    let users = dir.join(render::nats_conf::EDGE_USERS_FILE);
    std::fs::write(users, keys(render::nats_conf::edge_users(plan))).unwrap();
    let conf = dir.join("nats.conf");
    std::fs::write(&conf, head + &keys(accounts)).unwrap();
    conf
}

fn by_password(conf: String) -> String {
    conf.lines()
        .map(|line| match line.split_once("nkey: ") {
            Some((before, after)) => {
                let (key, rest) = after.split_once(',').unwrap();
                format!("{before}user: {key}, password: {PASSWORD},{rest}\n")
            }
            None => format!("{line}\n"),
        })
        .collect()
}

/// D25
#[test]
fn a_server_reads_what_is_rendered() {
    let Some(server) = nats_server() else { return };
    for case in golden::CASES {
        let dir = tempfile::tempdir().unwrap();
        let conf = write_conf(dir.path(), &plan(&golden::records(case)), |text| text);
        let output = Command::new(&server)
            .arg("-t")
            .arg("-c")
            .arg(conf)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{case}: {said}");
    }
}

struct Server {
    child: Child,
    dir: tempfile::TempDir,
    port: u16,
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Server {
    fn start(binary: &Path, plan: &Plan) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let conf = write_conf(dir.path(), plan, by_password);
        let child = Command::new(binary)
            .arg("-c")
            .arg(conf)
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let ports = dir.path().join(format!("nats-server_{}.ports", child.id()));
        let port = until("the server says its port", || {
            let mut text = String::new();
            std::fs::File::open(&ports)
                .ok()?
                .read_to_string(&mut text)
                .ok()?;
            let ports: Value = serde_json::from_str(&text).ok()?;
            ports["nats"][0].as_str()?.rsplit(':').next()?.parse().ok()
        });
        Self { child, dir, port }
    }

    fn connect(&self, principal: &str, plan: &Plan) -> Client {
        let principal: Principal = principal.parse().unwrap();
        let (key, _) = plan.users.iter().find(|(_, of)| **of == principal).unwrap();
        Client::connect(self.port, key.as_str())
    }

    fn controller(&self) -> Client {
        Client::connect(self.port, user_key("controller").as_str())
    }
}

/// Asks the API, which only the controller does.
fn ask(controller: &mut Client, subject: &str, body: &Value) -> Value {
    let answer = controller.request(subject, "mesh.inbox.controller.nuid", &body.to_string());
    serde_json::from_str(&answer).unwrap()
}

fn create(controller: &mut Client, plan: &Plan) {
    controller.subscribe("mesh.inbox.controller.>", None);
    for stream in plan.streams.values() {
        let subject = format!("$JS.API.STREAM.CREATE.{}", stream.name);
        let answer = ask(controller, &subject, &stream_config(stream));
        assert_eq!(answer["error"], Value::Null, "{}: {answer}", stream.name);
    }
    for spec in plan.consumers.values() {
        let (stream, name) = (spec.consumer.stream(), spec.consumer.name());
        let subject = format!("$JS.API.CONSUMER.CREATE.{stream}.{name}");
        let answer = ask(controller, &subject, &consumer_config(spec));
        assert_eq!(answer["error"], Value::Null, "{}: {answer}", spec.consumer);
    }
}

fn stream_config(spec: &StreamSpec) -> Value {
    json!({
        "name": spec.name,
        "subjects": spec.subjects,
        "retention": if spec.retention == Retention::WorkQueue { "workqueue" } else { "limits" },
        "discard": if spec.discard == Discard::Old { "old" } else { "new" },
        "discard_new_per_subject": spec.discard == Discard::NewPerSubject,
        "max_msgs_per_subject": spec.max_per_subject.unwrap_or(0),
        "max_consumers": spec.max_consumers,
        "storage": "memory",
    })
}

fn consumer_config(spec: &ConsumerSpec) -> Value {
    let second = 1_000_000_000_u64;
    let mut config = json!({
        "durable_name": spec.consumer.name(),
        "name": spec.consumer.name(),
        "ack_policy": "explicit",
        "ack_wait": u64::from(spec.ack_wait_secs) * second,
        "max_ack_pending": spec.max_ack_pending,
        "deliver_policy": if spec.deliver_policy == DeliverPolicy::All { "all" } else { "new" },
    });
    if let Selects::Only(filters) = &spec.selects {
        config["filter_subjects"] = json!(filters);
    }
    if let ConsumerKind::Push {
        deliver,
        group,
        idle_heartbeat_secs,
    } = &spec.kind
    {
        config["deliver_subject"] = json!(deliver);
        if let Some(group) = group {
            config["deliver_group"] = json!(group);
        }
        if let Some(secs) = idle_heartbeat_secs {
            config["idle_heartbeat"] = json!(u64::from(*secs) * second);
        }
    }
    json!({ "stream_name": spec.consumer.stream(), "config": config })
}

/// D18, D80, D81
#[test]
fn a_declaration_a_report_and_a_heartbeat_cross_the_accounts() {
    let Some(binary) = nats_server() else { return };
    let plan = plan(&golden::records("mailer"));
    let server = Server::start(&binary, &plan);
    let mut controller = server.controller();
    create(&mut controller, &plan);
    controller.subscribe("mesh.heartbeat.>", None);
    controller.subscribe("mesh.log.>", None);
    controller.settle();
    let inbox = "mesh.inbox.node.web-1.nuid";
    let mut node = server.connect("node/web-1", &plan);
    node.subscribe("mesh.deliver.node.web-1", None);
    node.subscribe("mesh.inbox.node.web-1.>", None);
    node.settle();
    controller.publish("mesh.node.web-1.declare", None, "desired");
    let declared = node.next("mesh.node.web-1.declare");
    assert_eq!(node.request(&declared.reply.unwrap(), inbox, "+ACK"), "");
    let stored = node.request("mesh.control.report.web-1", inbox, "applied");
    assert!(stored.contains("CONTROL"), "{stored}");
    node.publish("mesh.heartbeat.web-1", None, "alive");
    assert_eq!(controller.next("mesh.heartbeat.web-1").body, "alive");
    controller.publish("mesh.inbox.node.web-1.ask", None, "what was said?");
    let asked = node.next("mesh.inbox.node.web-1.ask");
    assert_eq!(asked.body, "what was said?");
    node.publish("mesh.log.web-1", None, "this");
    assert_eq!(controller.next("mesh.log.web-1").body, "this");
    let next = "$JS.API.CONSUMER.MSG.NEXT.CONTROL.controller";
    controller.publish(next, Some("mesh.inbox.controller.pull"), "1");
    let report = controller.next("mesh.control.report.web-1");
    assert_eq!(report.body, "applied");
    let ack = report.reply.unwrap();
    assert!(ack.starts_with("$JS.ACK.CONTROL.controller."), "{ack}");
}

/// D18
#[test]
fn an_event_work_and_an_enrolment_cross_the_accounts() {
    let Some(binary) = nats_server() else { return };
    let plan = plan(&golden::records("mailer"));
    let server = Server::start(&binary, &plan);
    let mut controller = server.controller();
    create(&mut controller, &plan);
    let mut mailer = server.connect("module/mailer@web-2", &plan);
    let mut shop = server.connect("module/shop@web-1", &plan);
    mailer.subscribe("mesh.deliver.module.mailer", Some("mailer"));
    mailer.subscribe("mesh.deliver.seat.mail", Some("mail"));
    mailer.subscribe("mesh.inbox.module.mailer.web-2.>", None);
    mailer.settle();
    shop.subscribe("mesh.inbox.module.shop.web-1.>", None);
    for (subject, stream) in [
        ("mesh.mod.shop.order.placed", "EVENTS"),
        ("mesh.seat.mail.shop", "SEAT-mail"),
    ] {
        let stored = shop.request(subject, "mesh.inbox.module.shop.web-1.nuid", "hello");
        assert!(stored.contains(stream), "{stored}");
        let heard = mailer.next(subject);
        let inbox = "mesh.inbox.module.mailer.web-2.nuid";
        assert_eq!(mailer.request(&heard.reply.unwrap(), inbox, "+ACK"), "");
    }
    let mut joiner = server.connect("joiner/t1", &plan);
    joiner.subscribe("mesh.inbox.joiner.t1.>", None);
    let stored = joiner.request(
        "mesh.control.enrol.t1",
        "mesh.inbox.joiner.t1.nuid",
        "hello",
    );
    assert!(stored.contains("CONTROL"), "{stored}");
    controller.publish("mesh.inbox.joiner.t1.answer", None, "welcome");
    assert_eq!(joiner.next("mesh.inbox.joiner.t1.answer").body, "welcome");
}

/// D03 D06 D08
#[test]
fn a_server_allows_what_is_granted_and_refuses_what_is_anothers() {
    let Some(binary) = nats_server() else { return };
    let records = golden::records("names");
    let plan = plan(&records);
    let server = Server::start(&binary, &plan);
    for principal in plan.users.values() {
        let grant = &plan.grants[principal];
        let mut client = server.connect(&principal.to_string(), &plan);
        for other in plan.grants.keys() {
            for operation in operations(&records, other) {
                let allowed = operation.is_allowed(grant);
                let refusals = client.attempt(&operation);
                assert_eq!(
                    refusals.is_empty(),
                    allowed,
                    "{principal} of {other}: {operation:?} {refusals:?}"
                );
                assert!(allowed || *principal != *other);
            }
        }
        for filter in [
            ">",
            "mesh.>",
            "mesh.deliver.>",
            "mesh.inbox.>",
            "$SYS.>",
            "_INBOX.>",
        ] {
            let filter: Filter = filter.parse().unwrap();
            let refusals = client.attempt(&Operation::Subscribe(filter.clone(), None));
            assert_ne!(refusals, Vec::<String>::new(), "{principal} {filter}");
        }
    }
}

/// D08
#[test]
fn an_ack_that_asks_for_its_answer_at_the_api_changes_nothing() {
    let Some(binary) = nats_server() else { return };
    let plan = plan(&golden::records("mailer"));
    let server = Server::start(&binary, &plan);
    let mut controller = server.controller();
    create(&mut controller, &plan);
    let mut node = server.connect("node/web-1", &plan);
    node.subscribe("mesh.deliver.node.web-1", None);
    node.settle();
    controller.publish("mesh.node.web-1.declare", None, "desired");
    let ack = node.next("mesh.node.web-1.declare").reply.unwrap();
    for target in [
        "$JS.API.STREAM.DELETE.NODES",
        "$JS.API.STREAM.PURGE.NODES",
        "mesh.node.web-2.declare",
    ] {
        node.publish(&ack, Some(target), "+ACK");
        node.publish("mesh.control.report.web-1", Some(target), "applied");
    }
    node.settle();
    let info = ask(&mut controller, "$JS.API.STREAM.INFO.NODES", &json!({}));
    assert_eq!(info["state"]["messages"], 1, "{info}");
    assert_eq!(info["state"]["last_seq"], 1, "{info}");
}

/// D26
#[test]
fn the_controller_has_its_files_read_again_and_who_is_connected_stays() {
    let Some(binary) = nats_server() else { return };
    let mut records = golden::records("mailer");
    let before = plan(&records);
    let server = Server::start(&binary, &before);
    let mut node = server.connect("node/web-1", &before);
    node.settle();
    add_node(&mut records, "web-3");
    let after = plan(&records);
    write_conf(server.dir.path(), &after, by_password);
    let mut system = Client::connect(server.port, user_key("system").as_str());
    system.subscribe("mesh.inbox.controller.>", None);
    let reload = format!("$SYS.REQ.SERVER.{}.RELOAD", system.server_id());
    let answer = system.request(&reload, "mesh.inbox.controller.nuid", "");
    let answer: Value = serde_json::from_str(&answer).unwrap();
    assert_eq!(answer["error"], Value::Null, "{answer}");
    node.settle();
    server.connect("node/web-3", &after).settle();
    for beyond in ["$SYS.REQ.SERVER.PING.CONNZ", "$SYS.REQ.ACCOUNT.EDGE.CONNZ"] {
        let subject = beyond.parse().unwrap();
        assert_ne!(
            system.attempt(&Operation::Publish(subject)),
            Vec::<String>::new()
        );
    }
}
