//! What the live bus lets each principal do, beside what was derived for it.

use std::collections::BTreeSet;
use std::process::ExitCode;

use mesh_api::{BrokerAnswer, CanAnswer, CanRequest, CanVerb, VerifiedPrincipal, VerifyRequest};
use mesh_model::Principal;

use crate::cli::{Can, Cli, Output};
use crate::out;
use crate::table::table;

/// Has the controller connect as each principal and try everything. Ends with 1 if anything went otherwise than derived.
pub(crate) async fn verify(cli: &Cli, principals: &[Principal]) -> anyhow::Result<ExitCode> {
    let request = VerifyRequest {
        principals: principals.to_vec(),
    };
    let verified = cli.client().verify(&request).await?;
    let wrong = || {
        verified
            .items
            .iter()
            .filter(|row| !row.differences.is_empty())
    };
    match cli.output {
        Output::Json => out::json("Verified", &verified)?,
        Output::Name => {
            for row in wrong() {
                out::data(&format!("{}\n", row.principal));
            }
        }
        Output::Table => out::data(&matrix(&verified.items)),
    }
    let unasked = verified
        .items
        .iter()
        .filter(|row| row.not_asked.is_some())
        .count();
    let differences: usize = wrong().map(|row| row.differences.len()).sum();
    out::note(&match differences {
        0 => format!(
            "revision {}: the bus allows what was derived, and nothing else that was tried",
            verified.revision
        ),
        some => format!("revision {}: {some} differences", verified.revision),
    });
    if unasked > 0 {
        out::note(&format!("{unasked} principals were not asked"));
    }
    Ok(ExitCode::from(u8::from(differences > 0)))
}

fn matrix(rows: &[VerifiedPrincipal]) -> String {
    let cells: Vec<_> = rows
        .iter()
        .map(|row| {
            [
                row.principal.to_string(),
                row.allowed.to_string(),
                row.refused.to_string(),
                row.injections.to_string(),
                row.untried.to_string(),
                verdict(row),
            ]
        })
        .collect();
    let heading = [
        "PRINCIPAL",
        "ALLOWED",
        "REFUSED",
        "INJECTED",
        "UNTRIED",
        "THE BUS",
    ];
    let mut text = table(heading, &cells);
    let unasked: BTreeSet<&String> = rows
        .iter()
        .filter_map(|row| row.not_asked.as_ref())
        .collect();
    for why in unasked {
        text.extend(["- not asked: ", why, "\n"]);
    }
    let differences = rows.iter().flat_map(|row| &row.differences);
    text.extend(differences.flat_map(|difference| ["! ", difference, "\n"]));
    text
}

/// What came of it, and in a mesh on two buses on which.
fn verdict(row: &VerifiedPrincipal) -> String {
    let what = match (row.not_asked.is_some(), row.differences.len()) {
        (true, _) => "not asked".to_owned(),
        (false, 0) if row.held > 0 => format!("as derived, {} held by the reader", row.held),
        (false, 0) => "as derived".to_owned(),
        (false, some) => format!("{some} differ"),
    };
    row.bus
        .map_or_else(|| what.clone(), |bus| format!("{bus}: {what}"))
}

/// Whether a principal may do one thing. Ends with 5 if it may not, and with 1 if the two answers differ.
pub(crate) async fn can(cli: &Cli, can: &Can) -> anyhow::Result<ExitCode> {
    let request = CanRequest {
        principal: can.principal.clone(),
        verb: match can.verb {
            crate::cli::CanVerb::Publish => CanVerb::Publish,
            crate::cli::CanVerb::Subscribe => CanVerb::Subscribe,
        },
        subject: can.subject.clone(),
        queue: can.queue.clone(),
    };
    let answer = cli.client().can(&request).await?;
    if cli.output == Output::Json {
        out::json("Can", &answer)?;
    } else {
        out::data(&both(&answer));
    }
    Ok(ExitCode::from(code(&answer)))
}

fn both(answer: &CanAnswer) -> String {
    let by = answer.by.as_ref();
    let by = by.map_or_else(String::new, |entry| format!(" (by {entry})"));
    let derived = if answer.derived { "yes" } else { "no" };
    let broker = match answer.broker {
        BrokerAnswer::Yes => "yes",
        BrokerAnswer::No => "no",
        BrokerAnswer::Unclear => "unclear",
        BrokerAnswer::NotAsked => "not asked",
    };
    let on = answer
        .bus
        .map_or_else(String::new, |bus| format!("{bus}: "));
    format!(
        "derived  {derived}{by}\nbroker   {on}{broker} ({})\n",
        answer.said
    )
}

fn code(answer: &CanAnswer) -> u8 {
    match (answer.derived, answer.broker) {
        (true, BrokerAnswer::Yes | BrokerAnswer::NotAsked) => 0,
        (false, BrokerAnswer::No | BrokerAnswer::NotAsked) => 5,
        (true, BrokerAnswer::No) | (false, BrokerAnswer::Yes) | (_, BrokerAnswer::Unclear) => 1,
    }
}

#[cfg(test)]
mod tests {
    use mesh_model::BusKind::{Amqp, Nats};

    use super::*;

    #[test]
    fn two_answers_that_differ_are_a_failure_whichever_way() {
        use BrokerAnswer::{No, NotAsked, Unclear, Yes};
        for (derived, broker, expected) in [
            (true, Yes, 0),
            (true, NotAsked, 0),
            (false, No, 5),
            (false, NotAsked, 5),
            (true, No, 1),
            (false, Yes, 1),
            (true, Unclear, 1),
            (false, Unclear, 1),
        ] {
            let answer = CanAnswer {
                derived,
                by: None,
                broker,
                said: String::new(),
                bus: None,
            };
            assert_eq!(code(&answer), expected, "{derived} {broker:?}");
        }
    }

    #[test]
    fn a_row_that_differs_is_followed_by_what_differs() {
        let rows = [VerifiedPrincipal {
            principal: "node/a".parse().unwrap(),
            allowed: 6,
            refused: 80,
            injections: 3,
            held: 0,
            untried: 0,
            differences: vec!["node/a publish x: must be refused, and was allowed".into()],
            bus: None,
            not_asked: None,
        }];
        let text = matrix(&rows);
        assert!(
            text.contains("node/a     6        80       3         0        1 differ\n"),
            "{text}"
        );
        assert!(text.ends_with("! node/a publish x: must be refused, and was allowed\n"));
    }

    #[test]
    fn with_two_buses_a_row_says_on_which_and_one_not_asked_is_not_as_derived() {
        let row = |bus, not_asked: Option<&str>| VerifiedPrincipal {
            principal: "node/a".parse().unwrap(),
            allowed: 0,
            refused: 0,
            injections: 0,
            held: 0,
            untried: 0,
            differences: Vec::new(),
            bus,
            not_asked: not_asked.map(str::to_owned),
        };
        for (row, expected) in [
            (
                VerifiedPrincipal {
                    held: 7,
                    ..row(None, None)
                },
                "as derived, 7 held by the reader",
            ),
            (row(None, None), "as derived"),
            (row(Some(Nats), None), "nats: as derived"),
            (row(Some(Amqp), Some("why")), "amqp: not asked"),
        ] {
            assert_eq!(verdict(&row), expected);
        }
        let text = matrix(&[row(Some(Amqp), Some("why")), row(Some(Amqp), Some("why"))]);
        assert!(text.ends_with("- not asked: why\n"), "{text}");
        assert_eq!(text.matches("why").count(), 1, "{text}");
    }
}
