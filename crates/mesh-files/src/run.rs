//! How a module runs, of what its file says: as a process or as a container, and how its health is asked for.

use mesh_model::{Container, Health, Probe, Resources, Run};
use toml::Spanned;

use crate::ErrorCode;
use crate::form::{HealthForm, ResourcesForm, RunForm};
use crate::keyed::Keyed;
use crate::manifest::Said;
use crate::names::{Names, Offset};
use crate::values::{self, Bytes, Millis};

/// Keys that only containers have, and how it is without one.
pub(crate) const OF_CONTAINERS: [(&str, &str); 6] = [
    ("args", "a command says its arguments itself"),
    ("ports", "a plain process listens on the host's own ports"),
    ("volumes", "a plain process uses the host's own paths"),
    ("network", "a plain process is in the host's network"),
    (
        "resources",
        "a plain process is limited in the unit of the node agent",
    ),
    ("pull_secret", "without an image there is none to fetch"),
];

/// What is run; nothing when that was refused.
pub(crate) fn how(run: &RunForm, at: Offset, names: &mut Names<'_, '_>) -> Option<Run> {
    match (&run.command, &run.image) {
        (Some(argv), None) => {
            without_image(run, names);
            let command = Run::command(argv.get_ref().iter().cloned());
            if command.is_none() {
                let message = "\"command\" in [run] names no program; write [\"bin\", \"arg\"]";
                names.refuse(argv.span().start, ErrorCode::WrongValue, message.to_owned());
            }
            command
        }
        (None, Some(_)) => container(run, names).map(|it| Run::Image(Box::new(it))),
        (Some(_), Some(image)) => {
            let message = "[run] has both \"command\" and \"image\"; choose one".to_owned();
            names.refuse(image.span().start, ErrorCode::Contradiction, message);
            None
        }
        (None, None) => {
            let message = "[run] needs either \"command\" or \"image\"".to_owned();
            names.refuse(at, ErrorCode::MissingKey, message);
            None
        }
    }
}

/// Where each key of a container has its value.
fn values_at(run: &RunForm) -> [Option<Offset>; OF_CONTAINERS.len()] {
    [
        run.args.as_ref().map(|it| it.span().start),
        run.ports.as_ref().map(|it| it.span().start),
        run.volumes.as_ref().map(|it| it.span().start),
        run.network.as_ref().map(|it| it.span().start),
        run.resources.as_ref().map(|it| it.span().start),
        run.pull_secret.as_ref().map(|it| it.span().start),
    ]
}

/// Refuses what a process has no use for.
fn without_image(run: &RunForm, names: &mut Names<'_, '_>) {
    for ((key, why), at) in OF_CONTAINERS.iter().zip(values_at(run)) {
        if let Some(at) = at {
            let message = format!("{key:?} in [run] is for an \"image\" alone: {why}");
            names.refuse(at, ErrorCode::Contradiction, message);
        }
    }
}

/// Where what is said of how it runs stands, as far as a manifest can contradict itself there.
pub(crate) fn places(run: &RunForm) -> impl Iterator<Item = (Said, Offset)> {
    let keys = OF_CONTAINERS.iter().map(|(key, _)| *key);
    let containers = keys.zip(values_at(run));
    let others = [
        ("command", run.command.as_ref().map(|it| it.span().start)),
        ("health", run.health.as_ref().map(|it| it.span().start)),
    ];
    containers
        .chain(others)
        .filter_map(|(key, at)| Some((Said::Field(key), at?)))
}

fn container(run: &RunForm, names: &mut Names<'_, '_>) -> Option<Container> {
    let image = run.image.as_ref()?;
    let image = names.value("\"image\" in [run]", image, values::meant_image);
    let ports = run.ports.as_ref().map(|ports| {
        let ports = ports.get_ref();
        names.values("\"ports\" in [run]", ports, values::meant_port)
    });
    let volumes = run.volumes.as_ref().map(|volumes| {
        let volumes = volumes.get_ref();
        names.values("\"volumes\" in [run]", volumes, values::meant_nothing)
    });
    let resources = run.resources.as_ref().map(|resources| {
        let Keyed(form) = resources.get_ref();
        limits(form, names)
    });
    let pull_secret = run
        .pull_secret
        .as_ref()
        .and_then(|secret| names.value("\"pull_secret\" in [run]", secret, values::meant_secret));
    Some(Container {
        image: image?,
        args: run
            .args
            .as_ref()
            .map_or_else(Vec::new, |args| args.get_ref().clone()),
        ports: ports.into_iter().flatten().map(|(port, _)| port).collect(),
        volumes: volumes.into_iter().flatten().map(|(it, _)| it).collect(),
        network: run
            .network
            .as_ref()
            .map_or_else(Default::default, |it| *it.get_ref()),
        resources: resources.unwrap_or_default(),
        pull_secret,
    })
}

fn limits(form: &ResourcesForm, names: &mut Names<'_, '_>) -> Resources {
    let memory = form.memory.as_ref().and_then(|memory| {
        let field = "\"memory\" in [run.resources]";
        names.value(field, memory, values::meant_size)
    });
    Resources {
        memory: memory.map(|Bytes(bytes)| bytes),
        millicpus: form.cpus.as_ref().and_then(|cpus| millicpus(cpus, names)),
    }
}

/// Thousandths of a processor. The range is asked first, so no number is lost on the way to a whole one.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "between 1 and 1,024,000"
)]
fn millicpus(cpus: &Spanned<f64>, names: &mut Names<'_, '_>) -> Option<u32> {
    if (0.001..=1024.0).contains(cpus.get_ref()) {
        return Some((cpus.get_ref() * 1000.0).round() as u32);
    }
    let message = "\"cpus\" in [run.resources] is a number from 0.001 to 1024".to_owned();
    names.refuse(cpus.span().start, ErrorCode::WrongValue, message);
    None
}

/// How health is asked for; nothing when that was refused.
pub(crate) fn health(
    form: &Spanned<Keyed<HealthForm>>,
    names: &mut Names<'_, '_>,
) -> Option<Health> {
    let at = form.span().start;
    let Keyed(form) = form.get_ref();
    let every = time("every", form.every.as_ref(), EVERY, names);
    let within = time("within", form.within.as_ref(), WITHIN, names);
    let text = |text: &Spanned<String>| (text.get_ref().clone(), text.span().start);
    let http = form.http.as_ref().map(text);
    let tcp = form.tcp.as_ref().map(text);
    let exec = form.exec.as_ref();
    let mut probes = [
        http.map(|(url, at)| ("http", Probe::Http(url), at)),
        tcp.map(|(place, at)| ("tcp", Probe::Tcp(place), at)),
        exec.map(|it| ("exec", Probe::Exec(it.get_ref().clone()), it.span().start)),
    ]
    .into_iter()
    .flatten();
    match (probes.next(), probes.next()) {
        (Some((_, probe, _)), None) => Some(Health {
            probe,
            every: every?,
            within: within?,
        }),
        (Some((key, ..)), Some((other, _, at))) => {
            let message = format!("[run.health] has both {key:?} and {other:?}; choose one");
            names.refuse(at, ErrorCode::Contradiction, message);
            None
        }
        (None, _) => {
            let message = "[run.health] needs one of \"http\", \"tcp\" and \"exec\"".to_owned();
            names.refuse(at, ErrorCode::MissingKey, message);
            None
        }
    }
}

fn time(
    key: &str,
    text: Option<&Spanned<String>>,
    otherwise: u64,
    names: &mut Names<'_, '_>,
) -> Option<u64> {
    let Some(text) = text else {
        return Some(otherwise);
    };
    let field = format!("{key:?} in [run.health]");
    let time = names.value(&field, text, values::meant_time);
    time.map(|Millis(millis)| millis)
}

/// Milliseconds between two questions, unless the file says.
const EVERY: u64 = 5_000;
/// Milliseconds after a start until it is healthy, unless the file says.
const WITHIN: u64 = 30_000;
