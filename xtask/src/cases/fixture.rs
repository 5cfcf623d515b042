//! Rows about definitions, for which a server already has some: what it has stands in the row's note, in one form.
//!
//! `… stream NAME ['SUBJECT', …] …` is a stream of the account, of a work queue where the note begins so, and
//! `NAME filter SUBJECT` a consumer of it. Rows `…_add_in_order` build on one another: what was taken stays.

use anyhow::{Context, Result, bail};
use serde_json::{Map, Value, json};

use mesh_servers::nats::{
    AckPolicy, Consumer, ConsumerField, Refusal, Retention, Stream, subjects_disjoint,
    unique_on_work_queue,
};

use super::row::{Row, number, text, texts, times};
use super::{Answer, State};

/// The answer, where the operation is one of these.
pub(super) fn answer(row: &Row<'_>, state: &mut State) -> Option<Result<Answer>> {
    let got = match row.op {
        "wq_add_in_order" => added(row, state, 10100, |held, new| {
            let others: Vec<Vec<String>> = held.iter().map(|one| vec![one.clone()]).collect();
            unique_on_work_queue(&others, new)
        }),
        "stream_add_in_order" => added(row, state, 10065, subjects_disjoint),
        "js_stream_create" => stream(row),
        "js_consumer_create" => consumer(row),
        _ => return None,
    };
    Some(got.map(Answer::Value))
}

/// Adds to what the group of rows has, if what it has admits it. Rows of a group have the same note.
fn added(
    row: &Row<'_>,
    state: &mut State,
    code: u16,
    admits: fn(&[String], &[String]) -> bool,
) -> Result<Value> {
    let new = texts(row.a)?;
    let held = state
        .added
        .entry(format!("{} {}", row.op, row.note))
        .or_default();
    let taken = admits(held, &new);
    if taken {
        held.extend(new);
    }
    let code = if taken { Value::Null } else { code.into() };
    Ok(json!({"ok": taken, "err_code": code}))
}

fn outcome(result: Result<(), Refusal>) -> Value {
    match result {
        Ok(()) => json!({"ok": true}),
        Err(Refusal::Closed) => json!({"ok": false, "conn_closed": true}),
        Err(Refusal::Unanswered) => json!({"ok": false, "timeout": true}),
        Err(Refusal::Answered { code, description }) => {
            json!({"ok": false, "err_code": code, "description": description})
        }
    }
}

fn stream(row: &Row<'_>) -> Result<Value> {
    let name = match row.a.get("name_len") {
        Some(length) => "x".repeat(usize::try_from(number(length)?)?),
        None => times(text(&row.a["name"])?),
    };
    let asked = Stream {
        name,
        subjects: texts(&row.a["subjects"])?,
        no_ack: row.a["no_ack"].as_bool().unwrap_or_default(),
    };
    let held = held_stream(row.note).context("the note names no stream the account has")?;
    let held = if held.name == asked.name {
        Vec::new()
    } else {
        vec![held]
    };
    Ok(outcome(asked.create(&held)))
}

/// `stream NAME ['SUBJECT', …]` of a note.
fn held_stream(note: &str) -> Option<Stream> {
    let (_, rest) = note.split_once("stream ")?;
    let (name, rest) = rest.split_once(" [")?;
    let (subjects, _) = rest.split_once(']')?;
    let subjects = subjects
        .split(',')
        .map(|subject| subject.trim().trim_matches('\'').to_owned());
    Some(Stream {
        name: name.to_owned(),
        subjects: subjects.collect(),
        no_ack: false,
    })
}

/// `NAME filter SUBJECT` of a note, each.
fn held_consumers(note: &str) -> Vec<Consumer> {
    let words: Vec<&str> = note.split_whitespace().collect();
    let held = words.windows(3).filter_map(|three| match three {
        [name, "filter", subject] => Some((*name, *subject)),
        _ => None,
    });
    held.map(|(name, subject)| Consumer {
        durable_name: name.to_owned(),
        filter_subject: subject.to_owned(),
        ack_policy: AckPolicy::Explicit,
        deliver_all: true,
        ..Consumer::default()
    })
    .collect()
}

fn consumer(row: &Row<'_>) -> Result<Value> {
    if let Some(change) = row.a.get("change") {
        return changed(
            change.as_object().context("the change is no object")?,
            row.note,
        );
    }
    let held = held_consumers(row.note);
    let updates = row.a["action"] == "update";
    let no_config = json!({});
    let config = row.a.get("config").unwrap_or(&no_config);
    let name = config.get("durable_name").or_else(|| row.a.get("name"));
    let name = times(text(name.context("it has no name")?)?);
    if updates && !held.iter().any(|one| one.durable_name == name) {
        let description = "consumer does not exist";
        return Ok(json!({"ok": false, "err_code": 10149, "description": description}));
    }
    let stream = held_stream(row.note).context("the note names no stream")?;
    let retention = if row.note.starts_with("workqueue") {
        Retention::WorkQueue
    } else if row.note.starts_with("interest") {
        Retention::Interest
    } else {
        Retention::Limits
    };
    let asked = read(config, name)?;
    let plain = format!(
        "$JS.API.CONSUMER.CREATE.{}.{}",
        stream.name, asked.durable_name
    );
    let api_subject = row.a["api_subject"].as_str().unwrap_or(&plain);
    Ok(outcome(asked.create(
        api_subject,
        &stream,
        retention,
        &held,
    )))
}

fn read(config: &Value, durable_name: String) -> Result<Consumer> {
    let words = |name: &str| config[name].as_str().unwrap_or_default().to_owned();
    let backoff = config["backoff"].as_array().map_or(&[][..], Vec::as_slice);
    Ok(Consumer {
        durable_name,
        filter_subject: words("filter_subject"),
        filter_subjects: texts(&config["filter_subjects"])?,
        ack_policy: match words("ack_policy").as_str() {
            "explicit" => AckPolicy::Explicit,
            "all" => AckPolicy::All,
            "none" | "" => AckPolicy::None,
            other => bail!("{other:?} is no ack policy"),
        },
        deliver_all: matches!(words("deliver_policy").as_str(), "" | "all"),
        deliver_subject: words("deliver_subject"),
        ack_wait: number(&config["ack_wait"])?,
        backoff: backoff.iter().map(number).collect::<Result<_>>()?,
        max_deliver: number(&config["max_deliver"])?,
        idle_heartbeat: number(&config["idle_heartbeat"])?,
        flow_control: config["flow_control"].as_bool().unwrap_or_default(),
        max_waiting: number(&config["max_waiting"])?,
        rate_limit_bps: number(&config["rate_limit_bps"])?,
    })
}

/// An update of a consumer that pulls, or pushes where the note says so.
fn changed(change: &Map<String, Value>, note: &str) -> Result<Value> {
    let held = Consumer {
        deliver_subject: if note.contains("push consumer") {
            "deliver".to_owned()
        } else {
            String::new()
        },
        ..Consumer::default()
    };
    for (name, value) in change {
        let field: ConsumerField = name.parse()?;
        let deliver_subject = value.as_str().unwrap_or_default();
        let result = held.change(field, deliver_subject, note.contains(" bound"));
        if result.is_err() {
            return Ok(outcome(result));
        }
    }
    Ok(json!({"ok": true}))
}
