//! As Docker 20.10 and Podman 4.3 say it.

use super::*;

const IMAGE: &str = "127.0.0.1:5000/shop:1";

/// The kind of a fault, without its words.
fn kind(fault: &Fault) -> &'static str {
    match fault {
        Fault::Auth { .. } => "auth",
        Fault::Unknown { .. } => "unknown",
        Fault::Unreachable { .. } => "unreachable",
        Fault::DiskFull { .. } => "disk",
        Fault::PortTaken { .. } => "port",
        Fault::Program { .. } => "program",
        Fault::Mount { .. } => "mount",
        Fault::ImageGone { .. } => "image gone",
        Fault::Missing => "missing",
        Fault::Conflict { .. } => "conflict",
        Fault::Refused { .. } => "refused",
        _ => "other",
    }
}

/// As Docker 20.10 and Podman 4.3 say it.
#[test]
fn what_engines_say_of_a_pull_is_told_apart() {
    for (message, expected) in OF_PULLS {
        let fault = classify(Asked::Pull(IMAGE), None, message);
        assert_eq!(kind(&fault), *expected, "{message}\n{fault}");
    }
}

#[test]
fn what_engines_say_of_a_container_is_told_apart() {
    for (status, message, expected) in OF_CONTAINERS {
        let fault = classify(Asked::Other("to start it"), Some(*status), message);
        assert_eq!(kind(&fault), *expected, "{message}\n{fault}");
    }
}

#[test]
fn what_an_engine_says_is_repeated_as_one_line_of_bounded_length() {
    let fault = classify(Asked::Other("it"), Some(500), "first\n\n  second");
    assert_eq!(
        fault.to_string(),
        "the container engine refuses it: first second"
    );
    let fault = classify(Asked::Other("it"), Some(500), &"ü".repeat(5000));
    assert!(fault.to_string().chars().count() < 700);
}

const OF_PULLS: &[(&str, &str)] = &[
    (
        "Get \"http://127.0.0.1:5000/v2/\": dial tcp 127.0.0.1:5000: connect: connection refused",
        "unreachable",
    ),
    (
        "Get \"https://nosuch.example/v2/\": dial tcp: lookup nosuch.example on 10.0.0.1:53: no such host",
        "unreachable",
    ),
    (
        "Get \"https://nosuch.example/v2/\": dial tcp: lookup nosuch.example: i/o timeout",
        "unreachable",
    ),
    (
        "Get \"https://127.0.0.1:5000/v2/\": http: server gave HTTP response to HTTPS client",
        "unreachable",
    ),
    ("unexpected EOF", "unreachable"),
    (
        "received unexpected HTTP status: 500 Internal Server Error",
        "unreachable",
    ),
    (
        "initializing source docker://127.0.0.1:5000/shop:1: pinging container registry 127.0.0.1:5000: Get \
         \"http://127.0.0.1:5000/v2/\": dial tcp 127.0.0.1:5000: connect: connection refused",
        "unreachable",
    ),
    (
        "manifest for 127.0.0.1:5000/shop:1 not found: manifest unknown: manifest unknown",
        "unknown",
    ),
    (
        "initializing source docker://127.0.0.1:5000/shop:1: reading manifest 1 in 127.0.0.1:5000/shop: \
         manifest unknown: manifest unknown",
        "unknown",
    ),
    (
        "no matching manifest for linux/arm64 in the manifest list entries",
        "unknown",
    ),
    (
        "Head \"http://127.0.0.1:5000/v2/shop/manifests/1\": no basic auth credentials",
        "auth",
    ),
    (
        "Get \"http://127.0.0.1:5000/v2/shop/manifests/1\": unauthorized: authentication required",
        "auth",
    ),
    (
        "pull access denied for shop, repository does not exist or may require 'docker login': denied: \
         requested access to the resource is denied",
        "auth",
    ),
    (
        "initializing source docker://127.0.0.1:5000/shop:1: unable to retrieve auth token: invalid \
         username/password: unauthorized: authentication required",
        "auth",
    ),
    (
        "failed to register layer: Error processing tar file(exit status 1): write /big: no space left on \
         device",
        "disk",
    ),
    (
        "writing blob: storing blob to file \"/var/tmp/storage1/1\": write /var/tmp/storage1/1: no space left \
         on device",
        "disk",
    ),
    ("something new", "refused"),
    ("", "refused"),
];

const OF_CONTAINERS: &[(u16, &str, &str)] = &[
    (
        500,
        "driver failed programming external connectivity on endpoint mesh-shop-1 (4f2): Bind for \
         0.0.0.0:8080 failed: port is already allocated",
        "port",
    ),
    (
        500,
        "driver failed programming external connectivity on endpoint mesh-shop-1 (4f2): Error starting \
         userland proxy: listen tcp4 0.0.0.0:8080: bind: address already in use",
        "port",
    ),
    (
        500,
        "cannot listen on the TCP port: listen tcp4 :8080: bind: address already in use",
        "port",
    ),
    (
        400,
        "failed to create shim: OCI runtime create failed: container_linux.go:380: starting container \
         process caused: exec: \"nosuch\": executable file not found in $PATH: unknown",
        "program",
    ),
    (
        500,
        "runc: runc create failed: unable to start container process: exec: \"nosuch\": executable file not \
         found in $PATH: OCI runtime attempted to invoke a command that was not found",
        "program",
    ),
    (400, "No command specified", "program"),
    (
        500,
        "no command or entrypoint provided, and no CMD or ENTRYPOINT from image",
        "program",
    ),
    (
        400,
        "invalid mount config for type \"bind\": bind source path does not exist: /missing",
        "mount",
    ),
    (500, "statfs /missing: no such file or directory", "mount"),
    (404, "No such image: shop:1", "image gone"),
    (404, "No such container: 4f2", "missing"),
    (
        404,
        "no container with name or ID \"4f2\" found: no such container",
        "missing",
    ),
    (404, "page not found", "missing"),
    (
        409,
        "Conflict. The container name \"/mesh-shop-1\" is already in use by container \"4f2\". You have to \
         remove (or rename) that container to be able to reuse that name.",
        "conflict",
    ),
    (
        500,
        "creating container storage: the container name \"mesh-shop-1\" is already in use by 4f2. You have \
         to remove that container to be able to reuse that name: that name is already in use",
        "conflict",
    ),
    (
        409,
        "removal of container 4f2 is already in progress",
        "conflict",
    ),
    (
        500,
        "failed to copy files: write /var/lib/docker/x: no space left on device",
        "disk",
    ),
    (500, "layer does not exist", "refused"),
];
