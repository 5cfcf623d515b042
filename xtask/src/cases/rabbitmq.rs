//! What is asked of RabbitMQ.

use anyhow::{Context, Result, bail};
use serde_json::Value;

use mesh_servers::rabbitmq::{
    Pattern, PatternError, Permission, binding_key_valid, binding_matches, expand,
    passive_declare_permitted, topic_allows,
};

use super::Answer;
use super::requirements;
use super::row::{Row, of_bytes, text, texts};
use super::wording;

/// The answer, where the operation is one of these.
pub(super) fn answer(row: &Row<'_>) -> Option<Result<Answer>> {
    let ask: fn(&Row<'_>) -> Result<Value> = match row.op {
        "amqp_requires" => return Some(requirements::answer(row)),
        "amqp_topic_matches" => |row| Ok(binding_matches(text(row.a)?, text(row.b)?).into()),
        "amqp_binding_key_valid" => |row| Ok(binding_key_valid(&of_bytes(text(row.a)?)).into()),
        "amqp_regex_allows" => regex_allows,
        "amqp_pattern_valid" => pattern_valid,
        "amqp_topic_permission" => topic_permission,
        "amqp_topic_permission_variable" => topic_permission_variable,
        "amqp_passive_declare_permitted" => passive_declare,
        _ => return None,
    };
    Some(ask(row).map(Answer::Value))
}

fn regex_allows(row: &Row<'_>) -> Result<Value> {
    let name = text(row.b)?;
    match Pattern::new(&of_bytes(text(row.a)?)) {
        Ok(pattern) => Ok(pattern.allows(name).into()),
        Err(PatternError::Unsupported { at, what }) => bail!("{what} at byte {at}"),
        Err(_) => Ok("invalid".into()),
    }
}

fn pattern_valid(row: &Row<'_>) -> Result<Value> {
    match Pattern::new(&of_bytes(text(row.a)?)) {
        Ok(_) => Ok(true.into()),
        Err(PatternError::Unsupported { at, what }) => bail!("{what} at byte {at}"),
        Err(_) => Ok(false.into()),
    }
}

fn topic_permission(row: &Row<'_>) -> Result<Value> {
    let pattern = match row.a {
        Value::Null => None,
        text_of => Some(Pattern::new(text(text_of)?)?),
    };
    let keys = texts(row.b)?;
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    Ok(topic_allows(pattern.as_ref(), &keys).into())
}

/// `a` is a pattern with one variable, and the variable's value.
fn topic_permission_variable(row: &Row<'_>) -> Result<Value> {
    let pair = texts(row.a)?;
    let [pattern, value] = pair.as_slice() else {
        bail!("{} is no pattern with a value", row.a);
    };
    let (_, rest) = pattern
        .split_once('{')
        .context("the pattern has no variable")?;
    let (name, _) = rest
        .split_once('}')
        .context("the pattern has no variable")?;
    let pattern = Pattern::new(&expand(pattern, &[(name, value)]))?;
    Ok(pattern.allows(text(row.b)?).into())
}

fn passive_declare(row: &Row<'_>) -> Result<Value> {
    let granted = texts(row.a)?;
    let granted: Vec<Permission> = granted
        .iter()
        .map(|name| wording::permission(name))
        .collect::<Result<_>>()?;
    Ok(passive_declare_permitted(&granted).into())
}
