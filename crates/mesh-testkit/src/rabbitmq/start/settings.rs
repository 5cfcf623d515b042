//! What a broker is told: where it listens, and how it differs from another.

use std::ffi::OsString;
use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::Command;

use crate::rabbitmq::Shape;

/// Where it listens, on loopback all of them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ports {
    pub(super) amqp: u16,
    pub(super) amqps: u16,
    pub(super) management: u16,
    pub(super) https: u16,
    pub(super) names: u16,
    pub(super) distribution: u16,
}

impl Ports {
    /// Some that nobody uses now.
    pub(super) fn free() -> std::io::Result<Self> {
        let mut held = Vec::new();
        let mut port = || {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
            let port = listener.local_addr()?.port();
            // Let go when there are enough: none is to be given twice.
            held.push(listener);
            std::io::Result::Ok(port)
        };
        Ok(Self {
            amqp: port()?,
            amqps: port()?,
            management: port()?,
            https: port()?,
            names: port()?,
            distribution: port()?,
        })
    }

    pub(super) fn nodename(self) -> String {
        format!("mesh-{}@localhost", self.amqp)
    }

    /// By what a program knows which broker it is, or is to speak to.
    pub(super) fn name(self, command: &mut Command, dir: &Path, path: &OsString) {
        command
            .env_clear()
            .env("PATH", path)
            .env("HOME", dir.join("home"))
            .env("LANG", "C.UTF-8")
            .env("ERL_EPMD_PORT", self.names.to_string())
            .env("RABBITMQ_NODENAME", format!("mesh-{}@localhost", self.amqp))
            .env("RABBITMQ_CONF_ENV_FILE", dir.join("none"));
    }

    pub(super) fn configuration(self, shape: &Shape, dir: &Path) -> anyhow::Result<String> {
        let disabled = !shape.statistics;
        let mut text = format!(
            "listeners.tcp.local = 127.0.0.1:{}\nmanagement.tcp.ip = 127.0.0.1\nmanagement.tcp.port = {}\n\
             default_user = {USER}\ndefault_pass = {PASSWORD}\nlog.file.level = warning\n\
             disk_free_limit.absolute = 1MB\ncollect_statistics_interval = 100\n\
             management.disable_stats = {disabled}\nmanagement.enable_queue_totals = {disabled}\n",
            self.amqp, self.management
        );
        if let Some((chain, key)) = &shape.certificate {
            let (cert, of) = (dir.join("cert.pem"), dir.join("key.pem"));
            fs::write(&cert, chain)?;
            fs::write(&of, key)?;
            let files = |of_what: &str| {
                let (cert, of) = (cert.display(), of.display());
                format!("{of_what}.certfile = {cert}\n{of_what}.keyfile = {of}\n")
            };
            let tls = format!(
                "listeners.ssl.local = 127.0.0.1:{}\nssl_options.cacertfile = {}\n{}\
                 management.ssl.ip = 127.0.0.1\nmanagement.ssl.port = {}\n{}",
                self.amqps,
                cert.display(),
                files("ssl_options"),
                self.https,
                files("management.ssl"),
            );
            text.push_str(&tls);
        }
        text.push_str(&shape.settings);
        Ok(text)
    }
}

pub(super) const USER: &str = "provisioner";
/// Of a broker that lives for a test, on loopback.
pub(super) const PASSWORD: &str = "of-a-test";
