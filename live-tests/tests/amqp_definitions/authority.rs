//! Each user on the broker: what it may, works; what it may not, is refused.

use std::collections::BTreeSet;

use lapin::BasicProperties;
use mesh_derive::topology::{Exchange, ExchangeKind, Key, NOTHING, Rights, user_name};
use mesh_model::Principal;
use serde_json::{Value, json};
use tokio::sync::Mutex;

use crate::login::{Login, Outcome};
use crate::site::{Site, VHOST, WITHOUT_PASSWORD};

const FORBIDDEN: Outcome = Outcome::Refused(403);

/// Whoever looks at what is in queues does so alone.
static QUEUES: Mutex<()> = Mutex::const_new(());

fn expected(may: bool) -> Outcome {
    if may { Outcome::Done } else { FORBIDDEN }
}

fn principal(text: &str) -> Principal {
    text.parse().unwrap()
}

/// Keys to try on an exchange: everybody's own, and some that only look like one.
fn candidates(site: &Site, exchange: Exchange) -> BTreeSet<String> {
    let users = site.topology.users.values();
    let own: BTreeSet<String> = users
        .filter_map(|rights| rights.keys.get(&exchange))
        .flatten()
        .map(|key| match key {
            Key::Is(key) => key.clone(),
            Key::Under(word) => format!("{word}.control.report.web"),
            Key::Any => "whatever.it.is".to_owned(),
        })
        .collect();
    let near = own.iter().flat_map(|key| {
        [
            format!("{key}\n"),
            format!("{key}0"),
            format!("0{key}"),
            key.replace('.', "x"),
        ]
    });
    let near: Vec<String> = near.collect();
    let other = [String::new(), "web".to_owned(), "#".to_owned()];
    own.into_iter().chain(near).chain(other).collect()
}

/// Whether a key is one of these.
fn may(rights: &Rights, exchange: Exchange, key: &str) -> bool {
    rights.write.contains(&exchange)
        && (exchange.kind() == ExchangeKind::Direct
            || rights.keys[&exchange].iter().any(|own| match own {
                Key::Is(own) => own == key,
                Key::Under(word) => key.starts_with(&format!("{word}.")) && !key.contains('\n'),
                Key::Any => !key.is_empty() && !key.contains('\n'),
            }))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_user_writes_its_own_keys_and_nobody_elses() -> anyhow::Result<()> {
    let Some(site) = Site::shared()? else {
        return Ok(());
    };
    let _alone = QUEUES.lock().await;
    for (who, rights) in users(site) {
        let login = Login::of(site, who).await?;
        for exchange in Exchange::ALL {
            for key in candidates(site, exchange) {
                let outcome = login.publish(exchange.as_str(), &key).await?;
                let expected = expected(may(rights, exchange, &key));
                assert_eq!(outcome, expected, "{who} writes {key:?} to {exchange}");
            }
        }
        for exchange in ["", "amq.topic", "amq.direct", "amq.fanout"] {
            for key in ["node.web", "ctl.report", "web"] {
                let outcome = login.publish(exchange, key).await?;
                assert_eq!(outcome, FORBIDDEN, "{who} writes {key} to {exchange:?}");
            }
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_user_reads_its_own_queues_and_empties_nobody_elses() -> anyhow::Result<()> {
    let Some(site) = Site::shared()? else {
        return Ok(());
    };
    let _alone = QUEUES.lock().await;
    for (who, rights) in users(site) {
        let login = Login::of(site, who).await?;
        for queue in site.topology.queues.keys() {
            let expected = expected(rights.read.contains(queue));
            assert_eq!(
                login.read(&queue.name()).await?,
                expected,
                "{who} reads {queue}"
            );
            assert_eq!(
                login.purge(&queue.name()).await?,
                expected,
                "{who} empties {queue}"
            );
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_declares_binds_or_deletes_even_what_is_his_own() -> anyhow::Result<()> {
    let Some(site) = Site::shared()? else {
        return Ok(());
    };
    for (who, rights) in users(site) {
        let login = Login::of(site, who).await?;
        let own = rights
            .read
            .first()
            .map_or_else(|| "ctl.report".to_owned(), ToString::to_string);
        for (what, outcome) in login.configure(&own).await? {
            assert_eq!(outcome, FORBIDDEN, "{who}: {what}");
        }
    }
    Ok(())
}

/// Written `^$`, nothing would allow a line feed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_may_do_nothing_is_refused_whatever_it_is_called() -> anyhow::Result<()> {
    let Some(site) = Site::shared()? else {
        return Ok(());
    };
    let who = principal("node/nothing");
    let (user, password) = (user_name(&who), "of nobody");
    let put = |path: String, body: Value| site.management().send("PUT", &path, &body).map(drop);
    put(
        format!("users/{user}"),
        json!({ "password": password, "tags": "" }),
    )?;
    put(
        format!("permissions/{VHOST}/{user}"),
        json!({ "configure": NOTHING, "write": "^mesh\\.(ctl|decl)\\z", "read": NOTHING }),
    )?;
    put(
        format!("topic-permissions/{VHOST}/{user}"),
        json!({ "exchange": "mesh.ctl", "write": NOTHING, "read": NOTHING }),
    )?;
    let login = Login::by(site, &who, password).await?;
    for key in ["\n", "\r\n", "a", "a\n", "report.nothing", "#"] {
        let outcome = login.publish("mesh.ctl", key).await?;
        assert_eq!(outcome, FORBIDDEN, "{key:?}");
    }
    // It is the keys that are refused: where they are held against nothing it may write.
    assert_eq!(login.publish("mesh.decl", "nothing").await?, Outcome::Done);
    for queue in site.topology.queues.keys() {
        assert_eq!(login.read(&queue.name()).await?, FORBIDDEN, "{queue}");
    }
    for (what, outcome) in login.configure("ctl.report").await? {
        assert_eq!(outcome, FORBIDDEN, "{what}");
    }
    site.management()
        .ask("DELETE", &format!("users/{user}"), None)?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_user_id_of_a_message_is_its_senders_or_the_message_is_refused() -> anyhow::Result<()> {
    let Some(site) = Site::shared()? else {
        return Ok(());
    };
    let node = Login::of(site, &principal("node/node1")).await?;
    for (as_, expected) in [
        ("node/node1", Outcome::Done),
        ("node/node10", Outcome::Refused(406)),
    ] {
        let as_ = user_name(&principal(as_));
        let properties = BasicProperties::default().with_user_id(as_.as_str().into());
        let outcome = node
            .publish_with("mesh.ctl", "report.node1", properties)
            .await?;
        assert_eq!(outcome, expected, "{as_}");
    }
    Ok(())
}

/// The one thing the derived authority does not keep on a broker below 4.0.3, held here as a fact so that nobody takes the
/// other tests to say otherwise: there a reader asks for the key it was to hear and for `user_id`, too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_under_another_key_is_refused_from_4_0_3_on_and_goes_through_before()
-> anyhow::Result<()> {
    let Some(site) = Site::shared()? else {
        return Ok(());
    };
    let _alone = QUEUES.lock().await;
    let controller = Login::of(site, &Principal::Controller).await?;
    controller.purge("ctl.mark").await?;
    let node = Login::of(site, &principal("node/node1")).await?;
    let outcome = node.copied("mesh.ctl", "report.node1", "mark").await?;
    let came = controller.take("ctl.mark").await?;
    if site.topology.broker.version.proves_sender() {
        assert_eq!((outcome, came), (FORBIDDEN, None));
    } else {
        // It came, under the key that was its sender's to write.
        assert_eq!(
            (outcome, came),
            (Outcome::Done, Some("report.node1".to_owned()))
        );
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_was_away_finds_the_newest_declaration_only() -> anyhow::Result<()> {
    let Some(site) = Site::shared()? else {
        return Ok(());
    };
    let _alone = QUEUES.lock().await;
    let controller = Login::of(site, &Principal::Controller).await?;
    for _ in 0..3 {
        assert_eq!(
            controller.publish("mesh.decl", "node10").await?,
            Outcome::Done
        );
    }
    let node = Login::of(site, &principal("node/node10")).await?;
    assert_eq!(node.take("node.node10").await?, Some("node10".to_owned()));
    assert_eq!(node.take("node.node10").await?, None);
    Ok(())
}

/// Who says what, and where it waits for whom. A seat's work waits for whoever holds it; nobody holds `spare`.
const SAID: [(&str, Exchange, &str, &str, &str); 12] = [
    (
        "controller",
        Exchange::Declarations,
        "web",
        "node/web",
        "node.web",
    ),
    (
        "node/web",
        Exchange::Control,
        "report.web",
        "controller",
        "ctl.report",
    ),
    (
        "node/node10",
        Exchange::Heartbeats,
        "node10",
        "controller",
        "ctl.beat",
    ),
    (
        "joiner/t1",
        Exchange::Control,
        "enrol.t1",
        "controller",
        "ctl.enrol",
    ),
    (
        "controller",
        Exchange::Answers,
        "t1",
        "joiner/t1",
        "enrol.t1",
    ),
    (
        "module/shop@web",
        Exchange::Events,
        "shop.order.placed",
        "module/mailer@node1",
        "mod.mailer",
    ),
    (
        "module/shop@web",
        Exchange::Events,
        "shop.announced",
        "module/mailer@node10",
        "mod.mailer",
    ),
    (
        "module/shop@web",
        Exchange::Events,
        "shop.announced",
        "controller",
        "ctl.events",
    ),
    (
        "module/mailer@node1",
        Exchange::Events,
        "mailer.sent",
        "module/watcher@node1",
        "mod.watcher",
    ),
    (
        "module/shop@web",
        Exchange::Seats,
        "mail.shop",
        "module/mailer@node10",
        "seat.mail",
    ),
    (
        "controller",
        Exchange::Control,
        "mark",
        "controller",
        "ctl.mark",
    ),
    (
        "controller",
        Exchange::Control,
        "parked.control.report.web",
        "controller",
        "parked",
    ),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_said_waits_for_whom_it_is_for() -> anyhow::Result<()> {
    let Some(site) = Site::shared()? else {
        return Ok(());
    };
    let _alone = QUEUES.lock().await;
    for (says, exchange, key, hears, queue) in SAID {
        let hearer = Login::of(site, &principal(hears)).await?;
        hearer.purge(queue).await?;
        let sayer = Login::of(site, &principal(says)).await?;
        let outcome = sayer.publish(exchange.as_str(), key).await?;
        assert_eq!(outcome, Outcome::Done, "{says} {key}");
        assert_eq!(
            hearer.take(queue).await?.as_deref(),
            Some(key),
            "{hears} {queue}"
        );
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_for_a_seat_nobody_holds_waits() -> anyhow::Result<()> {
    let Some(site) = Site::shared()? else {
        return Ok(());
    };
    let _alone = QUEUES.lock().await;
    let path = format!("queues/{VHOST}/seat.spare/contents");
    site.management().ask("DELETE", &path, None)?;
    let sender = Login::of(site, &principal("module/shop@web")).await?;
    assert_eq!(
        sender.publish("mesh.seat", "spare.shop").await?,
        Outcome::Done
    );
    let peek = json!({ "count": 10, "ackmode": "ack_requeue_true", "encoding": "auto" });
    let path = format!("queues/{VHOST}/seat.spare/get");
    let answer = site
        .management()
        .ask("POST", &path, Some(&peek.to_string()))?;
    let waiting: Value = serde_json::from_str(&answer.body)?;
    let keys: Vec<&Value> = waiting
        .as_array()
        .unwrap()
        .iter()
        .map(|it| &it["routing_key"])
        .collect();
    assert_eq!(keys, ["spare.shop"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_password_is_refused_and_so_is_every_one_of_a_user_without() -> anyhow::Result<()> {
    let Some(site) = Site::shared()? else {
        return Ok(());
    };
    for (who, passwords) in [
        ("node/web", ["of node/node1", "x"]),
        (WITHOUT_PASSWORD, ["of joiner/t2", ""]),
    ] {
        for password in passwords {
            let login = Login::with(site, &principal(who), password).await?;
            assert!(login.is_none(), "{who} logs in with {password:?}");
        }
    }
    Ok(())
}

/// Everybody who can log in with a password.
fn users(site: &'static Site) -> impl Iterator<Item = (&'static Principal, &'static Rights)> {
    site.topology
        .users
        .iter()
        .filter(|(who, _)| who.to_string() != WITHOUT_PASSWORD)
}
