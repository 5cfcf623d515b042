//! What the configuration means, and what of it is refused.

use std::os::unix::fs::PermissionsExt;

use clap::Parser;
use mesh_derive::topology::QueueKind;

use super::*;

fn meant(text: &str) -> anyhow::Result<Config> {
    Config::meant(mesh_files::read("controller.toml", text)?, None)
}

#[test]
fn the_skeleton_means_the_defaults() {
    let config = meant(SKELETON).unwrap();
    assert!(matches!(
        config.bus,
        Bus::Nats(Nats::Managed(Managed { port: 0, .. }))
    ));
    assert_eq!(config.window.bound, Limits::default().bound);
    assert_eq!(config.rotation, Rotation::default());
    let text = "version = 1\n[credentials]\nrotate_after = \"never\"\noverlap = \"2h\"";
    let rotation = meant(text).unwrap().rotation;
    assert_eq!((rotation.after, rotation.overlap), (None, 7_200_000));
}

#[test]
fn what_is_wrong_is_named_with_its_key() {
    for (text, said) in [
        ("version = 1\n[window]\nbund = \"1m\"", "did you mean"),
        ("version = 1\n[window]\nbound = \"soon\"", "window.bound"),
        ("version = 1\n[bus]\ndefault = \"mqtt\"", "bus.default"),
        ("version = 1\n[bus.nats]\nkind = \"server\"", "needs urls"),
        ("version = 1\n[bus.nats]\nkind = \"own\"", "bus.nats.kind"),
        ("version = 1\n[bus.nats]\nca = \"x\"", "belong to kind"),
        (
            "version = 1\n[bus.nats]\nlisten = \"0.0.0.0\"",
            "needs names",
        ),
        (
            "version = 1\n[credentials]\nrotate_after = \"5m\"",
            "credentials.rotate_after = \"5m\": at least 1h",
        ),
        (
            "version = 1\n[credentials]\noverlap = \"1s\"",
            "credentials.overlap",
        ),
        ("version = 1\n[store]\nengine = \"oracle\"", "store.engine"),
        ("[store]\n", "version = 1"),
    ] {
        let error = format!("{:#}", meant(text).unwrap_err());
        assert!(error.contains(said), "{text}: {error}");
    }
}

const AMQP: &str = "version = 1\n[bus]\ndefault = \"amqp\"\n[bus.amqp]\n\
    url = \"amqps://bus.example/mesh\"\nmanagement_url = \"https://bus.example\"\n\
    ca = \"ca.pem\"\nprovisioner_file = \"provisioner\"\n";

fn amqp(text: &str) -> Amqp {
    match meant(text).unwrap().bus {
        Bus::Amqp(amqp) => amqp,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_broker_somebody_runs_is_named_by_its_urls() {
    let found = amqp(AMQP);
    assert_eq!(found.url.to_string(), "amqps://bus.example:5671/mesh");
    assert_eq!(found.management.to_string(), "https://bus.example:15671");
    assert!(matches!(found.provisioner, Provisioner::File(_)));
    assert_eq!(found.queues, QueueKind::Classic);
    // It need not be said twice which bus it is.
    amqp(&AMQP.replace("default = \"amqp\"\n", ""));
    assert_eq!(
        amqp(&format!("{AMQP}queues = \"quorum\"")).queues,
        QueueKind::Quorum
    );
}

#[test]
fn what_is_wrong_with_a_broker_is_named_with_its_key() {
    for (from, to, said) in [
        ("url = \"amqps://bus.example/mesh\"\n", "", "needs url"),
        ("amqps:", "amqp:", "bus.amqp.url: "),
        ("amqps:", "amqp:", "for everybody to read"),
        ("amqps:", "tls:", "is no address of a broker"),
        (
            "management_url = \"https://bus.example\"\n",
            "",
            "needs management_url",
        ),
        ("https:", "http:", "write https://"),
        ("ca = \"ca.pem\"\n", "", "needs ca"),
        (
            "provisioner_file = \"provisioner\"\n",
            "",
            "needs provisioner_file",
        ),
        ("amqps://", "amqps://admin:pw@", "two of one thing"),
        ("ca = ", "queues = \"lazy\"\nca = ", "bus.amqp.queues"),
        ("ca = ", "cas = \"x\"\nca = ", "did you mean"),
        (
            "default = \"amqp\"",
            "default = \"nats\"",
            "write [bus.nats] for a mesh on both",
        ),
        (
            "[bus.amqp]",
            "[bus.nats]\nkind = \"own\"\n[bus.amqp]",
            "bus.nats.kind",
        ),
    ] {
        let text = AMQP.replacen(from, to, 1);
        assert_ne!(text, AMQP, "{from}");
        let error = format!("{:#}", meant(&text).unwrap_err());
        assert!(error.contains(said), "{text}: {error}");
    }
    let error = meant("version = 1\n[bus]\ndefault = \"amqp\"").unwrap_err();
    assert!(error.to_string().contains("needs [bus.amqp]"), "{error}");
}

#[test]
fn two_buses_are_written_side_by_side_and_hosts_join_on_the_default() {
    let undecided = AMQP.replace("default = \"amqp\"\n", "");
    let both = |text: &str| {
        meant(&format!("{text}[bus.nats]\nport = 4222\n"))
            .unwrap()
            .bus
    };
    for (text, default) in [
        (undecided.clone(), BusKind::Nats),
        (AMQP.replace("\"amqp\"", "\"nats\""), BusKind::Nats),
        (AMQP.to_owned(), BusKind::Amqp),
    ] {
        let bus = both(&text);
        assert_eq!(bus.kinds(), BusKind::ALL.into(), "{text}");
        assert_eq!(bus.default_kind(), default, "{text}");
        let Bus::Both(both) = bus else {
            panic!("{bus:?}");
        };
        assert!(matches!(
            &both.nats,
            Nats::Managed(Managed { port: 4222, .. })
        ));
        assert_eq!(both.amqp.url.to_string(), "amqps://bus.example:5671/mesh");
    }
    for (text, kind) in [
        (undecided.as_str(), BusKind::Amqp),
        ("version = 1\n", BusKind::Nats),
        (
            "version = 1\n[bus]\ndefault = \"loopback\"\n[bus.nats]\n",
            BusKind::Nats,
        ),
    ] {
        let bus = meant(text).unwrap().bus;
        assert_eq!(
            (bus.kinds(), bus.default_kind()),
            ([kind].into(), kind),
            "{text}"
        );
    }
}

#[test]
fn both_buses_are_shown_a_line_each_with_the_one_hosts_join_on() {
    let cli = Cli::try_parse_from(["controller"]).unwrap();
    let shown = |text: &str| meant(text).unwrap().render(&cli, false);
    let both = shown(&format!("{AMQP}[bus.nats]\n"));
    for line in [
        "bus.default = \"amqp\"\n",
        "bus.nats = \"nats managed 127.0.0.1:0\"\n",
        "bus.amqp = \"amqp amqps://bus.example:5671/mesh, managed at https://bus.example:15671 ",
    ] {
        assert!(both.contains(line), "{both}");
    }
    let one = shown(AMQP);
    assert!(
        one.contains("\nbus = \"amqp amqps:") && !one.contains("bus.default"),
        "{one}"
    );
}

/// A broker closes the channel of whoever holds a message for longer than it allows, half an hour at least.
#[test]
fn a_window_over_amqp_is_no_longer_than_a_broker_lets_a_report_be_held() {
    let bound = |bus: &str, bound: &str| meant(&format!("{bus}[window]\nbound = \"{bound}\"\n"));
    let nats = "version = 1\n";
    let both = format!("{AMQP}[bus.nats]\n").replace("\"amqp\"", "\"nats\"");
    for (bus, taken) in [(AMQP, "25m"), (AMQP, "1s"), (nats, "2h"), (&both, "25m")] {
        assert!(bound(bus, taken).is_ok(), "{bus} {taken}");
    }
    for (bus, refused) in [(AMQP, "25m 1s"), (AMQP, "2h"), (&both, "2h")] {
        let error = format!("{:#}", bound(bus, refused).unwrap_err());
        let said = format!("window.bound = {refused}: over AMQP a report is held for 25m at most");
        assert!(error.contains(&said), "{error}");
    }
}

/// Under the wrong key, as the wrong kind of value, without its host, or in a URL of another kind.
#[test]
fn an_address_that_is_not_understood_is_told_without_its_password() {
    for (key, value) in [
        ("bus", "\"amqps://admin:geheim@bus.example\""),
        ("bus.amqp", "\"amqps://admin:geheim@bus.example\""),
        ("bus.default", "\"amqps://admin:geheim@bus.example\""),
        ("bus.loopback", "\"amqps://admin:geheim@bus.example\""),
        ("bus.amqp.url", "[\"amqps://admin:geheim@bus.example\"]"),
        (
            "bus.amqp.url",
            "{ of = \"amqps://admin:geheim@bus.example\" }",
        ),
        ("bus.amqp.url", "\"amqps://admin:geheim\""),
        ("bus.amqp.url", "\"admin:geheim\""),
        ("bus.amqp.urls", "\"amqps://admin:geheim@bus.example\""),
        ("bus.nats.urls", "\"tls://admin:geheim@bus.example\""),
        ("bus.nats.port", "\"tls://admin:geheim@bus.example\""),
        ("bus.nats.kind", "\"tls://admin:geheim@bus.example\""),
        ("bus.amqp.url", "\"amqps://admin:geheim@bus.example"),
        ("bus.amqp.url", "amqps://admin:geheim@bus.example"),
    ] {
        let text = format!("version = 1\n{key} = {value}\n");
        let error = format!("{:#}", meant(&text).unwrap_err());
        assert!(!error.contains("geheim"), "{text}: {error}");
    }
}

#[test]
fn a_password_in_the_configuration_is_its_owners_and_never_shown() {
    let text = AMQP
        .replace("amqps://", "amqps://admin:geheim@")
        .replace("provisioner_file = \"provisioner\"\n", "");
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("controller.toml");
    std::fs::write(&file, &text).unwrap();
    let load = |mode| {
        std::fs::set_permissions(&file, PermissionsExt::from_mode(mode)).unwrap();
        Config::meant(read(&file)?, Some(file.clone()))
    };
    let error = format!("{:#}", load(0o644).unwrap_err());
    assert!(
        error.contains("chmod 600") && !error.contains("geheim"),
        "{error}"
    );
    let config = load(0o600).unwrap();
    let cli = Cli::try_parse_from(["controller"]).unwrap();
    let shown = format!("{}{config:?}", config.render(&cli, true));
    assert!(shown.contains("as admin (password redacted)"), "{shown}");
    assert!(!shown.contains("geheim"), "{shown}");
}
