//! What is asked of nats-server by one row alone.

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use mesh_servers::nats::{
    AckForm, ConsumerField, Export, ExportKind, Permissions, Request, Transform,
    any_filter_subset_of, backoff_fits, effective_ack_wait, exports_ok, filters_match, filters_ok,
    has_wildcard, is_filtered, is_literal, is_subset, matches, overlaps, rename_ok,
    rename_to_subject, split_subject_queue, subjects_allowed, subjects_disjoint,
    unique_on_work_queue, valid_api_prefix, valid_filter, valid_kv_bucket, valid_kv_key,
    valid_literal, valid_name, valid_publish_entry, valid_queue_group, valid_reply,
    valid_subscribe_entry,
};

use super::row::{Row, number, of_bytes, permissions, text, texts};
use super::{Answer, State};

/// The answer, where the operation is one of these.
pub(super) fn answer(row: &Row<'_>, state: &State) -> Option<Result<Answer>> {
    if let Some(ask) = of_one_text(row.op) {
        return Some(text(row.a).map(|a| value(ask(a))));
    }
    if let Some(ask) = of_two_texts(row.op) {
        return Some(text(row.a).and_then(|a| Ok(value(ask(a, text(row.b)?)))));
    }
    let ask = match row.op {
        "nats_pub_allowed" => published,
        "nats_sub_allowed" | "nats_queue_sub_allowed" => return Some(subscribed(row, state)),
        "split_subject_queue" => return Some(split(row)),
        "nats_api_subject" => api_subject,
        "js_ack_reply_token_count" => ack_tokens,
        "transform" => transformed,
        "exports_ok" => exported,
        "consumer_field_updatable" => updatable,
        "wq_consumer_unique" => unique,
        "js_effective_ack_wait" => ack_wait,
        op => of_lists(op)?,
    };
    Some(ask(row).map(Answer::Value))
}

fn value(answer: impl Into<Value>) -> Answer {
    Answer::Value(answer.into())
}

fn of_one_text(op: &str) -> Option<fn(&str) -> bool> {
    Some(match op {
        "valid_filter" => valid_filter,
        "valid_literal" => valid_literal,
        "is_literal" => is_literal,
        "has_wildcard" => has_wildcard,
        "valid_reply" => valid_reply,
        "valid_name" => |name| valid_name(&of_bytes(name)),
        "valid_kv_key" => valid_kv_key,
        "valid_kv_bucket" => valid_kv_bucket,
        "valid_api_prefix" => valid_api_prefix,
        "valid_queue_group" => valid_queue_group,
        "valid_sub_permission" => valid_subscribe_entry,
        "valid_pub_permission" => valid_publish_entry,
        _ => return None,
    })
}

fn of_two_texts(op: &str) -> Option<fn(&str, &str) -> bool> {
    Some(match op {
        "matches" => matches,
        "subset" => is_subset,
        "overlaps" => overlaps,
        "rename_ok" => rename_ok,
        "transform_ok" => |from, to| Transform::new(from, to).is_ok(),
        _ => return None,
    })
}

fn of_lists(op: &str) -> Option<fn(&Row<'_>) -> Result<Value>> {
    Some(match op {
        "consumer_filters_ok" => |row| Ok(filters_ok(&texts(row.a)?).into()),
        "filters_match" => |row| Ok(filters_match(&texts(row.a)?, text(row.b)?).into()),
        "any_filter_subset_of" => {
            |row| Ok(any_filter_subset_of(&texts(row.a)?, text(row.b)?).into())
        }
        "consumer_is_filtered" => |row| Ok(is_filtered(&texts(row.a)?, &texts(row.b)?).into()),
        "stream_subjects_disjoint" => {
            |row| Ok(subjects_disjoint(&texts(row.a)?, &texts(row.b)?).into())
        }
        "stream_subjects_allowed" => |row| Ok(subjects_allowed(&texts(row.a)?, false).into()),
        "stream_subjects_allowed_noack" => |row| Ok(subjects_allowed(&texts(row.a)?, true).into()),
        "rename_to_subject" => |row| Ok(rename_to_subject(text(row.a)?).into()),
        "backoff_len_vs_max_deliver" => |row| {
            let steps = usize::try_from(number(row.a)?)?;
            Ok(backoff_fits(steps, number(row.b)?).into())
        },
        _ => return None,
    })
}

fn published(row: &Row<'_>) -> Result<Value> {
    Ok(permissions(row.a)?.may_publish(text(row.b)?).into())
}

/// Whether it may be subscribed, and, where the row says which probes were delivered, which of them are.
fn subscribed(row: &Row<'_>, state: &State) -> Result<Answer> {
    let permissions = permissions(row.a)?;
    let (filter, queue) = match row.b {
        Value::Array(pair) => match pair.as_slice() {
            [filter] | [filter, Value::Null] => (text(filter)?, None),
            [filter, queue] => (text(filter)?, Some(text(queue)?)),
            _ => bail!("{} is no subject with a queue", row.b),
        },
        one => (text(one)?, None),
    };
    let allowed = permissions.may_subscribe(filter, queue);
    let Some(expected) = &row.delivered else {
        return Ok(value(allowed));
    };
    let delivered: Vec<&String> = probes(&permissions, filter, queue, state);
    let right = *row.expect == json!(allowed)
        && delivered.len() == expected.len()
        && delivered.iter().all(|subject| expected.contains(subject));
    Ok(Answer::Verdict(
        right,
        json!([allowed, delivered]).to_string(),
    ))
}

fn probes<'s>(
    permissions: &Permissions,
    filter: &str,
    queue: Option<&str>,
    state: &'s State,
) -> Vec<&'s String> {
    let all = state.probes.iter();
    all.filter(|subject| permissions.delivers(filter, queue, subject))
        .collect()
}

/// The subject and the queue; no queue may be written as nothing.
fn split(row: &Row<'_>) -> Result<Answer> {
    let got = split_subject_queue(text(row.a)?).ok();
    let expected = match row.expect {
        Value::Null => None,
        Value::Array(pair) => {
            let part = |at: usize| pair.get(at).and_then(Value::as_str);
            Some((part(0), part(1).filter(|queue| !queue.is_empty())))
        }
        other => bail!("{other} is no subject with a queue, and not null"),
    };
    let right = got.map(|(subject, queue)| (Some(subject), queue)) == expected;
    Ok(Answer::Verdict(right, json!(got).to_string()))
}

fn ack_tokens(row: &Row<'_>) -> Result<Value> {
    let form = AckForm::of(text(row.a)?).context("it is no ack subject")?;
    Ok(form.tokens().into())
}

fn transformed(row: &Row<'_>) -> Result<Value> {
    let pair = texts(row.a)?;
    let [from, to] = pair.as_slice() else {
        bail!("{} is no source with a destination", row.a);
    };
    Ok(Transform::new(from, to)?.apply(text(row.b)?).into())
}

fn exported(row: &Row<'_>) -> Result<Value> {
    let export = |value: &Value| -> Result<Export> {
        let pair = texts(value)?;
        let kind = match pair.first().map(String::as_str) {
            Some("service") => ExportKind::Service,
            Some("stream") => ExportKind::Stream,
            _ => bail!("{value} is no export"),
        };
        let subject = pair
            .get(1)
            .with_context(|| format!("{value} has no subject"))?;
        Ok(Export {
            kind,
            subject: subject.clone(),
        })
    };
    Ok(exports_ok(&[export(row.a)?, export(row.b)?]).into())
}

/// A field's name, and perhaps whether somebody is subscribed, or that it would turn push into pull.
fn updatable(row: &Row<'_>) -> Result<Value> {
    let words = text(row.a)?;
    let (name, standing) = words.split_once(' ').unwrap_or((words, "bound"));
    let field: ConsumerField = name.parse()?;
    let turned = standing.contains("pull");
    let bound = turned || (standing.contains("bound") && !standing.contains("unbound"));
    Ok(field.updatable(bound).into())
}

fn unique(row: &Row<'_>) -> Result<Value> {
    let others = row.a.as_array().context("a is no list of lists")?;
    let others: Vec<Vec<String>> = others.iter().map(texts).collect::<Result<_>>()?;
    Ok(unique_on_work_queue(&others, &texts(row.b)?).into())
}

fn ack_wait(row: &Row<'_>) -> Result<Value> {
    let backoff = row.a["backoff"].as_array().map_or(&[][..], Vec::as_slice);
    let backoff: Vec<i64> = backoff.iter().map(number).collect::<Result<_>>()?;
    Ok(effective_ack_wait(number(&row.a["ack_wait"])?, &backoff).into())
}

/// The subject a request in words goes to, with its names in angle brackets.
fn api_subject(row: &Row<'_>) -> Result<Value> {
    let words = text(row.a)?;
    if let Some(rest) = words.strip_prefix("ack ") {
        let form = if rest.starts_with("v2") {
            AckForm::V2
        } else {
            AckForm::V1
        };
        return Ok(form
            .subject("<domain>", "<account hash>", "<stream>", "<consumer>")
            .into());
    }
    let request = request(words).with_context(|| format!("no request is known by {words:?}"))?;
    let last = if request == Request::DirectGetLast {
        "<subject>"
    } else {
        "<filter>"
    };
    Ok(request.subject("<stream>", "<consumer>", last).into())
}

fn request(words: &str) -> Option<Request> {
    let has = |word: &str| words.contains(word);
    let verb = words.split([' ', ',']).nth(1)?;
    Some(match (words.split(' ').next()?, verb) {
        ("account", _) => Request::AccountInfo,
        ("pull", _) => Request::PullNext,
        ("direct", _) if has("subject") || has("last") => Request::DirectGetLast,
        ("direct", _) => Request::DirectGet,
        ("stream" | "msg" | "message", _) if has("msg") || has("message") => {
            if has("delete") {
                Request::MessageDelete
            } else {
                Request::MessageGet
            }
        }
        ("stream", "create") => Request::StreamCreate,
        ("stream", "update") => Request::StreamUpdate,
        ("stream", "info") => Request::StreamInfo,
        ("stream", "purge") => Request::StreamPurge,
        ("stream", "delete") => Request::StreamDelete,
        ("stream", "names") => Request::StreamNames,
        ("stream", "list") => Request::StreamList,
        ("consumer", "create" | "durable") if has("durable") => Request::ConsumerCreateDurable,
        ("consumer", "create") if has("ephemeral") => Request::ConsumerCreateEphemeral,
        ("consumer", "create") if has("exactly one") || has("one filter") || has("single") => {
            Request::ConsumerCreateFiltered
        }
        ("consumer", "create") => Request::ConsumerCreate,
        ("consumer", "info") => Request::ConsumerInfo,
        ("consumer", "pause") => Request::ConsumerPause,
        ("consumer", "reset") => Request::ConsumerReset,
        ("consumer", "unpin") => Request::ConsumerUnpin,
        ("consumer", "delete") => Request::ConsumerDelete,
        ("consumer", "names") => Request::ConsumerNames,
        ("consumer", "list") => Request::ConsumerList,
        _ => return None,
    })
}
