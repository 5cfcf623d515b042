//! Enrolment, step by step: token, keys, question, answer, files.

use std::time::Duration;

use anyhow::{Context, anyhow};
use mesh_agent::{JoinPace, bus_at, join, public_on, verifier};
use mesh_amqp::{AmqpJoiner, BrokerUrl, Trust, greet};
use mesh_auth::tls::{CaFingerprint, PinnedCa, pinned_client_config};
use mesh_auth::token::Token;
use mesh_bus::JoinerBus;
use mesh_model::{BoxPublicKey, BusKind, Enrolment, EnrolmentAnswer};
use mesh_nats::NatsJoiner;

use crate::cli::Cli;
use crate::exit::{Exit, Failure, not_answered, not_connected};
use crate::home::{Accepted, Home, HostKeys};
use crate::{out, unit};

/// Makes this host a node, or says why not.
pub(crate) fn run(cli: &Cli) -> Result<(), Failure> {
    let token: Token = cli
        .token
        .parse()
        .map_err(|error| Failure::new(Exit::Usage, anyhow::Error::new(error)))?;
    check(&token, mesh_host::now().as_secs())?;
    // Before anything is asked: a spent token for a unit that cannot be written helps nobody.
    let unit_place = cli.install_unit.then(unit::place).transpose()?;
    let home = Home::take(&cli.dir())?;
    let keys = home.keys()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("the bus cannot be spoken to")?;
    let accepted = runtime.block_on(ask(cli, &token, &keys))?;
    let node = accepted.node.clone();
    home.settle(&token, &keys, accepted)?;
    cli.say(&format!(
        "this host is node {node} of mesh {} now; next:",
        token.mesh
    ));
    let config = home.config();
    match unit_place {
        Some(place) => out::data(&unit::install(&place, &config)?),
        None => out::data(&format!("node-agent --config {}\n", config.display())),
    }
    Ok(())
}

/// Refuses a token that is of no more use, by this host's clock.
fn check(token: &Token, now: u64) -> Result<(), Failure> {
    if !token.is_expired(now) {
        return Ok(());
    }
    let ago = humantime::format_duration(Duration::from_secs(now - token.expires));
    Err(Failure::new(
        Exit::Denied,
        anyhow!(
            "token {} expired {ago} ago by this host's clock; set the clock if it is wrong, or create a new token with \
             `meshctl token create`",
            token.id
        ),
    ))
}

async fn ask(cli: &Cli, token: &Token, keys: &HostKeys) -> Result<Accepted, Failure> {
    let name = format!("joiner/{}", token.id);
    match bus_at(&token.urls) {
        BusKind::Nats => over_nats(cli, token, keys, name).await,
        BusKind::Amqp => over_amqp(cli, token, keys, &name).await,
    }
}

async fn over_nats(
    cli: &Cli,
    token: &Token,
    keys: &HostKeys,
    name: String,
) -> Result<Accepted, Failure> {
    let pinned = token.ca.context(NOBODY_VOUCHES)?;
    let (tls, ca) = pinned_client_config(pinned).map_err(anyhow::Error::new)?;
    let endpoint = mesh_nats::Endpoint {
        urls: token.urls.clone(),
        tls: Some(tls),
        name,
    };
    let credential = mesh_nats::Credential::NKeySeed(token.joiner.seed().expose().to_owned());
    let dialling = mesh_nats::Dialling {
        first: mesh_nats::FirstAttempt::MustSucceed,
        seed: mesh_host::seed(),
    };
    let bus = NatsJoiner::connect(&endpoint, &credential, &token.id, dialling)
        .await
        .map_err(|error| not_connected(token, error))?;
    let answer = converse(cli, token, keys, &bus).await?;
    accepted(answer, Some(certificate(&ca)?))
}

async fn over_amqp(
    cli: &Cli,
    token: &Token,
    keys: &HostKeys,
    name: &str,
) -> Result<Accepted, Failure> {
    let ca_pem = match token.ca {
        Some(pinned) => Some(shown_ca(token, pinned).await?),
        None => None,
    };
    let trust = ca_pem.as_deref().map(Trust::of_pem).transpose();
    let trust = trust.map_err(anyhow::Error::new)?;
    let endpoint = mesh_amqp::Endpoint::of_urls(&token.urls, trust, name)
        .context("the token's address of the bus; create a new token")?;
    let credential = mesh_amqp::Credential::of_seed(token.joiner.seed().expose());
    let dialling = mesh_amqp::Dialling {
        first: mesh_amqp::FirstAttempt::MustSucceed,
        seed: mesh_host::seed(),
    };
    let bus = AmqpJoiner::connect(&endpoint, &credential, &token.id, dialling)
        .await
        .map_err(|error| not_connected(token, error))?;
    let answer = converse(cli, token, keys, &bus).await?;
    accepted(answer, ca_pem)
}

/// The certificate of the authority a token pins, as the broker shows it: before anybody logs in, since a password goes
/// to whoever is at the other end.
async fn shown_ca(token: &Token, pinned: CaFingerprint) -> Result<String, Failure> {
    let urls = token.urls.iter().map(|url| url.parse::<BrokerUrl>());
    let servers = urls
        .map(|url| url.map(|url| (url.host, url.port)))
        .collect::<Result<Vec<_>, _>>()
        .context("the token's address of the bus; create a new token")?;
    let (tls, ca) = pinned_client_config(pinned).map_err(anyhow::Error::new)?;
    let greeted = greet(&servers, tls).await;
    greeted.map_err(|error| not_connected(token, error))?;
    Ok(certificate(&ca)?)
}

fn certificate(ca: &PinnedCa) -> anyhow::Result<String> {
    ca.certificate_pem()
        .context("the bus was reached without showing who vouches for it")
}

async fn converse<B: JoinerBus>(
    cli: &Cli,
    token: &Token,
    keys: &HostKeys,
    bus: &B,
) -> Result<EnrolmentAnswer, Failure> {
    cli.say(&format!(
        "connected to the bus of mesh {}; asking",
        token.mesh
    ));
    let key = public_on(bus_at(&token.urls), &keys.user);
    let key = key.map_err(anyhow::Error::new)?;
    let box_key = BoxPublicKey::new(keys.secrets.public().as_str()).map_err(anyhow::Error::new)?;
    let enrolment = || Enrolment {
        node: cli.name.clone(),
        key: key.clone(),
        box_key: box_key.clone(),
        reply: bus.answer_address(),
        clock: mesh_host::now(),
    };
    let pace = JoinPace {
        again: AGAIN,
        within: cli.timeout,
    };
    join(bus, enrolment, &verifier(token.controller.clone()), pace)
        .await
        .map_err(|error| not_answered(token, error))
}

fn accepted(answer: EnrolmentAnswer, ca_pem: Option<String>) -> Result<Accepted, Failure> {
    match answer {
        EnrolmentAnswer::Accepted {
            mesh,
            node,
            bus,
            jwt,
        } => Ok(Accepted {
            mesh,
            node,
            bus,
            jwt,
            ca_pem,
        }),
        EnrolmentAnswer::Refused(refusal) => {
            let error = anyhow::Error::new(refusal).context("the controller refuses this host");
            Err(Failure::new(Exit::Denied, error))
        }
    }
}

const NOBODY_VOUCHES: &str =
    "the token does not say who vouches for the bus; create a new one with `meshctl token create`";
/// How often it is asked; the same pair of token and key gets the same answer.
const AGAIN: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use mesh_auth::keys::{SigningKey, UserKey};
    use mesh_model::EnrolmentRefusal;

    use super::*;

    #[test]
    fn whatever_the_controller_refuses_is_denied() {
        let (token, node) = ("t1".parse().unwrap(), "web-1".parse().unwrap());
        for refusal in [
            EnrolmentRefusal::Spent { token, node },
            EnrolmentRefusal::NoName,
            EnrolmentRefusal::ClockSkew { seconds: 900 },
        ] {
            let said = refusal.to_string();
            let failure = accepted(EnrolmentAnswer::Refused(refusal), None).unwrap_err();
            assert_eq!(failure.exit, Exit::Denied, "{said}");
            assert!(format!("{:#}", failure.error).contains(&said), "{said}");
        }
    }

    #[test]
    fn a_token_is_of_use_until_the_second_it_expires() {
        let token = Token {
            mesh: "home".parse().unwrap(),
            urls: vec![],
            ca: None,
            id: "t1".parse().unwrap(),
            joiner: UserKey::generate().unwrap(),
            controller: SigningKey::generate().unwrap().public(),
            node: None,
            expires: 1_000,
        };
        assert!(check(&token, 999).is_ok());
        let failure = check(&token, 1_090).unwrap_err();
        assert_eq!(failure.exit, Exit::Denied);
        let text = failure.error.to_string();
        assert!(
            text.contains("expired 1m 30s ago") && text.contains("clock"),
            "{text}"
        );
    }
}
