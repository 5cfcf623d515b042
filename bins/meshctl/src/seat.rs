//! Handing a seat over.

use std::process::ExitCode;

use anyhow::bail;
use mesh_api::{Assign, CallError, Code};
use mesh_control::{SeatStatus, Status};
use mesh_model::{ModuleName, SeatName};
use serde_json::json;
use tokio::time::Instant;

use crate::cli::{Cli, Output};
use crate::exit::TimedOut;
use crate::out;

/// Gives a seat to another module. The controller answers once the one before may work it no more on the live bus, and then
/// the other may.
pub(crate) async fn hand_over(
    cli: &Cli,
    seat: &SeatName,
    to: &ModuleName,
) -> anyhow::Result<ExitCode> {
    let client = cli.client();
    let before = client.status().await?;
    let from = of(&before, seat).and_then(|seat| seat.holder.clone());
    match begin(&before, seat, to) {
        Begin::There => {
            out::note(&format!("module {to} holds seat {seat} already"));
            return said(cli, &before, seat, from.as_ref(), to);
        }
        Begin::Unheard => out::note(&format!(
            "no node of module {to} is heard: the work of seat {seat} waits until one is"
        )),
        Begin::Assign => {}
    }
    let began = Instant::now();
    let holder = Some(to.clone());
    match client.assign(seat, &Assign { holder }).await {
        Ok(_) => {}
        // It is stored, and may become true yet.
        Err(CallError::Refused(error)) if error.code == Code::TimedOut => {
            out::note(&error.message);
            loop {
                let status = client.status().await?;
                match after(&status, seat, to) {
                    After::True => break,
                    After::Not(why) => bail!(why),
                    After::Waiting if began.elapsed() >= cli.timeout => {
                        let after = humantime::format_duration(cli.timeout).to_string();
                        let waiting_for = status.waiting_for;
                        return Err(TimedOut { after, waiting_for }.into());
                    }
                    After::Waiting => tokio::time::sleep(LOOK_AGAIN).await,
                }
            }
        }
        Err(error) => return Err(error.into()),
    }
    said(cli, &client.status().await?, seat, from.as_ref(), to)
}

const LOOK_AGAIN: std::time::Duration = std::time::Duration::from_millis(250);

/// What there is to be done.
#[derive(Debug, PartialEq, Eq)]
enum Begin {
    /// It has it.
    There,
    /// Nothing speaks against it; or the controller says what does.
    Assign,
    /// It may, and nobody will work.
    Unheard,
}

fn begin(status: &Status, seat: &SeatName, to: &ModuleName) -> Begin {
    let Some(found) = of(status, seat) else {
        return Begin::Assign;
    };
    let mut able = found.candidates.iter();
    match able.find(|candidate| candidate.module == *to) {
        _ if found.holder.as_ref() == Some(to) && status.settled => Begin::There,
        Some(candidate) if !candidate.heard => Begin::Unheard,
        _ => Begin::Assign,
    }
}

/// How far it is.
#[derive(Debug, PartialEq, Eq)]
enum After {
    /// The live bus is what follows from who holds it.
    True,
    /// It may become so yet.
    Waiting,
    /// It will not: somebody decided otherwise.
    Not(String),
}

fn after(status: &Status, seat: &SeatName, to: &ModuleName) -> After {
    let holder = of(status, seat).and_then(|seat| seat.holder.as_ref());
    match holder {
        Some(holder) if holder == to && status.settled => After::True,
        Some(holder) if holder == to => After::Waiting,
        Some(holder) => After::Not(format!("seat {seat} was given to {holder} meanwhile")),
        None => After::Not(format!("seat {seat} was taken from everybody meanwhile")),
    }
}

fn of<'a>(status: &'a Status, seat: &SeatName) -> Option<&'a SeatStatus> {
    status.seats.iter().find(|found| found.seat == *seat)
}

fn said(
    cli: &Cli,
    status: &Status,
    seat: &SeatName,
    from: Option<&ModuleName>,
    to: &ModuleName,
) -> anyhow::Result<ExitCode> {
    let backlog = of(status, seat).and_then(|seat| seat.backlog);
    match cli.output {
        Output::Json => {
            let revision = status.revision;
            let whole = json!({ "seat": seat, "from": from, "to": to, "revision": revision, "backlog": backlog });
            out::json("HandedOver", &whole)?;
        }
        Output::Name => out::data(&format!("{to}\n")),
        Output::Table => {
            let from = from.map_or_else(|| "nobody".to_owned(), ToString::to_string);
            let waits = backlog.map_or_else(String::new, |backlog| format!(", {backlog} waiting"));
            out::data(&format!("seat {seat}: from {from} to {to}{waits}\n"));
        }
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn status(holder: Option<&str>, settled: bool) -> Status {
        let whole = json!({
            "mesh": "home", "revision": 4, "at": 0, "buses": ["nats"], "nodes": [], "modules": [],
            "seats": [{
                "seat": "desk", "holder": holder, "by_hand": false,
                "candidates": [
                    { "module": "old", "nodes": ["a"], "heard": true },
                    { "module": "new", "nodes": ["b"], "heard": true },
                    { "module": "away", "nodes": ["c"], "heard": false },
                ],
            }],
            "window": { "held": 0, "peak": 0, "lets_go_in": null },
            "store_up": true, "settled": settled, "waiting_for": [],
            "tally": mesh_control::Tally::default(),
        });
        serde_json::from_value(whole).unwrap()
    }

    #[test]
    fn only_what_is_not_so_is_asked_for() {
        let desk: SeatName = "desk".parse().unwrap();
        for (holder, settled, to, begins) in [
            (Some("old"), true, "new", Begin::Assign),
            (Some("new"), true, "new", Begin::There),
            // It was asked for, and is not true yet.
            (Some("new"), false, "new", Begin::Assign),
            (None, true, "new", Begin::Assign),
            (Some("old"), true, "away", Begin::Unheard),
            // The controller says why not.
            (Some("old"), true, "stranger", Begin::Assign),
        ] {
            let status = status(holder, settled);
            let to = to.parse().unwrap();
            assert_eq!(begin(&status, &desk, &to), begins, "{holder:?} {to}");
        }
        let other: SeatName = "other".parse().unwrap();
        let to = "new".parse().unwrap();
        assert_eq!(begin(&status(None, true), &other, &to), Begin::Assign);
    }

    #[test]
    fn it_is_true_once_the_bus_shows_it_and_never_if_somebody_decided_otherwise() {
        let desk: SeatName = "desk".parse().unwrap();
        let new: ModuleName = "new".parse().unwrap();
        let after = |holder, settled| after(&status(holder, settled), &desk, &new);
        assert_eq!(after(Some("new"), true), After::True);
        assert_eq!(after(Some("new"), false), After::Waiting);
        assert!(matches!(after(Some("old"), true), After::Not(_)));
        assert!(matches!(after(None, true), After::Not(_)));
    }
}
