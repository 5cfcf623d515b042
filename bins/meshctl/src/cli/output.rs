//! How answers are written, and what is written in one way only.

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgMatches, CommandFactory, FromArgMatches, ValueEnum};

use super::{Cli, ModuleVerb, Verb};

/// How answers are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// For people.
    Table,
    /// For programs: one document.
    Json,
    /// Names only, one a line.
    Name,
}

impl Verb {
    /// The forms its answer has.
    const fn outputs(&self) -> &'static [Output] {
        match self {
            Self::Render(_)
            | Self::Module(ModuleVerb::New { .. } | ModuleVerb::Schema { .. })
            | Self::RefuseStore { .. } => &[],
            Self::Plan { .. }
            | Self::Logs(_)
            | Self::Reports { .. }
            | Self::Can(_)
            | Self::Doctor => &[Output::Table, Output::Json],
            Self::Apply(_)
            | Self::Status
            | Self::Node(_)
            | Self::Module(ModuleVerb::Ls | ModuleVerb::Inspect { .. } | ModuleVerb::Rotate(_))
            | Self::Seat(_)
            | Self::Token(_)
            | Self::Secret(_)
            | Self::Derive { .. }
            | Self::Verify { .. } => &[Output::Table, Output::Json, Output::Name],
        }
    }
}

impl Cli {
    /// What was typed; ends the program when that is none of what can be.
    pub(crate) fn typed() -> Self {
        let matches = Self::command().get_matches();
        Self::of(&matches).unwrap_or_else(|error| error.exit())
    }

    /// A form that is typed has to be one the answer has. One in the environment is meant for whatever has it.
    fn of(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let cli = Self::from_arg_matches(matches)?;
        let typed = matches.value_source("output") == Some(ValueSource::CommandLine);
        let forms = cli.verb.outputs();
        if !typed || forms.contains(&cli.output) {
            return Ok(cli);
        }
        let words = forms.iter().filter_map(Output::to_possible_value);
        let words: Vec<String> = words.map(|it| it.get_name().to_owned()).collect();
        let instead = if words.is_empty() {
            "what this writes has one form; leave --output out".to_owned()
        } else {
            format!("this is written as {} only", words.join(" or "))
        };
        Err(Self::command().error(
            ErrorKind::ArgumentConflict,
            format!("--output is not for this: {instead}"),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(line: &str) -> Result<Cli, String> {
        let words = std::iter::once("meshctl").chain(line.split(' '));
        let matches = Cli::command().try_get_matches_from(words);
        let cli = matches.and_then(|matches| Cli::of(&matches));
        cli.map_err(|error| error.to_string())
    }

    #[test]
    fn a_broker_of_a_version_no_mesh_runs_over_is_refused() {
        let render = |version: &str| {
            typed(&format!(
                "render rabbitmq-definitions dir --broker-version {version}"
            ))
        };
        for (version, why) in [
            ("3.9.29", "3.10.0 or newer"),
            ("0.0.0", "3.10.0 or newer"),
            ("4.0", "no RabbitMQ version"),
        ] {
            let said = render(version).unwrap_err();
            assert!(said.contains(why), "{version}: {said}");
        }
        for version in ["3.10.0", "4.3.0-rc.1"] {
            render(version).unwrap();
        }
    }

    #[test]
    fn a_form_an_answer_does_not_have_is_refused_wherever_it_is_typed() {
        for (line, instead) in [
            (
                "-o json render rabbitmq-definitions dir",
                "leave --output out",
            ),
            (
                "render rabbitmq-definitions dir -o json",
                "leave --output out",
            ),
            ("module new mailer --output table", "leave --output out"),
            ("module schema -o json", "leave --output out"),
            ("plan dir -o name", "table or json only"),
            ("reports -o name", "table or json only"),
            ("doctor -o name", "table or json only"),
            ("can node/a publish x -o name", "table or json only"),
        ] {
            let said = typed(line).unwrap_err();
            assert!(said.contains(instead), "{line}: {said}");
        }
        for line in [
            "render rabbitmq-definitions dir",
            "plan dir -o json",
            "-o name module ls",
            "derive dir -o name",
        ] {
            typed(line).unwrap();
        }
    }
}
