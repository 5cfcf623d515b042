//! What an operator of a mesh types.

mod cli;
mod declare;
mod derive;
mod exit;
mod inspect;
mod list;
mod logs;
mod moving;
mod out;
mod proof;
mod render;
mod schedule;
mod seat;
mod secret;
mod table;
mod token;

use std::process::ExitCode;

use mesh_model::Scheduling;

use cli::{Cli, ModuleVerb, NodeVerb, RenderVerb, SeatVerb, SecretVerb, TokenVerb, Verb};

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let cli = Cli::typed();
    let result = match &cli.verb {
        Verb::Plan { dir } => declare::plan(&cli, dir).await,
        Verb::Apply(apply) => declare::apply(&cli, apply).await,
        Verb::Status => list::status(&cli).await,
        Verb::Node(NodeVerb::Ls) => list::nodes(&cli).await,
        Verb::Node(NodeVerb::Inspect { node }) => inspect::node(&cli, node).await,
        Verb::Node(NodeVerb::Cordon { node }) => {
            schedule::schedule(&cli, node, Scheduling::Cordoned).await
        }
        Verb::Node(NodeVerb::Uncordon { node }) => {
            schedule::schedule(&cli, node, Scheduling::Open).await
        }
        Verb::Node(NodeVerb::Drain { node }) => schedule::drain(&cli, node).await,
        Verb::Node(NodeVerb::Rm { node, .. }) => declare::remove_node(&cli, node).await,
        Verb::Node(NodeVerb::Label { node, labels }) => declare::label(&cli, node, labels).await,
        Verb::Node(NodeVerb::Rejoin { node, ttl, bus }) => {
            token::rejoin(&cli, node, *ttl, *bus).await
        }
        Verb::Node(NodeVerb::Move(asked)) => moving::moving(&cli, asked).await,
        Verb::Module(ModuleVerb::Ls) => list::modules(&cli).await,
        Verb::Module(ModuleVerb::Inspect { module }) => inspect::module(&cli, module).await,
        Verb::Module(ModuleVerb::Rotate(asked)) => secret::rotate(&cli, asked).await,
        Verb::Module(ModuleVerb::New { module }) => Ok(declare::skeleton(module)),
        Verb::Module(ModuleVerb::Schema { mesh }) => Ok(declare::schema(*mesh)),
        Verb::Seat(SeatVerb::Ls) => list::seats(&cli).await,
        Verb::Seat(SeatVerb::Handover { seat, to }) => seat::hand_over(&cli, seat, to).await,
        Verb::Seat(SeatVerb::Assign { seat, module }) => {
            declare::assign(&cli, seat, Some(module)).await
        }
        Verb::Seat(SeatVerb::Release { seat }) => declare::assign(&cli, seat, None).await,
        Verb::Token(TokenVerb::Create(create)) => token::create(&cli, create).await,
        Verb::Token(TokenVerb::Ls) => token::list(&cli).await,
        Verb::Token(TokenVerb::Revoke { id }) => token::revoke(&cli, id).await,
        Verb::Secret(SecretVerb::Set(set)) => secret::set(&cli, set).await,
        Verb::Secret(SecretVerb::Ls) => secret::list(&cli).await,
        Verb::Secret(SecretVerb::Rm { secret, yes }) => secret::remove(&cli, secret, *yes).await,
        Verb::Derive { dir } => derive::derive(&cli, dir),
        Verb::Render(RenderVerb::NatsConf(asked)) => render::nats_conf(asked),
        Verb::Render(RenderVerb::RabbitmqDefinitions(asked)) => render::rabbitmq_definitions(asked),
        Verb::Logs(asked) => logs::logs(&cli, asked).await,
        Verb::Reports { node } => list::reports(&cli, node.as_ref()).await,
        Verb::Verify { principals } => proof::verify(&cli, principals).await,
        Verb::Can(can) => proof::can(&cli, can).await,
        Verb::Doctor => list::doctor(&cli).await,
        Verb::RefuseStore { time } => declare::refuse_store(&cli, *time).await,
    };
    result.unwrap_or_else(|error| exit::failed(&cli, &error))
}
