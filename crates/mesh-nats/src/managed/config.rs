//! The configuration of a managed server.

use std::net::SocketAddr;
use std::path::Path;

use crate::managed::{ServerSpec, SyncPolicy};

/// The accounts, included by the configuration, beside it.
pub(super) const ACCOUNTS_FILE: &str = "accounts.conf";

/// How large a log becomes before another is begun: every refusal is a line, and anybody with a key can be refused.
const LOG_SIZE: &str = "16MB";
/// How many there are, the one that is written included.
const LOG_FILES: u8 = 4;

/// The text of the configuration.
pub(super) fn server(spec: &ServerSpec, port: u16, log: &Path) -> String {
    let sync = match spec.sync {
        SyncPolicy::Always => "always".to_owned(),
        SyncPolicy::Every(interval) => quoted(&format!("{}s", interval.as_secs().max(1))),
    };
    let tls = spec.tls.as_ref().map_or_else(String::new, |files| {
        format!(
            "tls {{\n  cert_file: {}\n  key_file: {}\n}}\n",
            path(&files.cert),
            path(&files.key)
        )
    });
    format!(
        "# Written by the controller. Do not edit.\n\
         server_name: {name}\n\
         listen: \"{listen}\"\n\
         max_payload: {max_payload}\n\
         max_control_line: 65536\n\
         jetstream {{\n  store_dir: {store}\n  sync_interval: {sync}\n}}\n\
         log_file: {log}\n\
         logfile_size_limit: {LOG_SIZE}\n\
         logfile_max_num: {LOG_FILES}\n\
         {tls}\
         include \"{ACCOUNTS_FILE}\"\n",
        listen = SocketAddr::new(spec.listen, port),
        name = quoted(&spec.name),
        max_payload = spec.max_payload,
        store = path(&spec.store_dir),
        log = path(log),
    )
}

fn path(path: &Path) -> String {
    quoted(&path.to_string_lossy())
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::time::Duration;

    use super::*;
    use crate::managed::TlsFiles;

    fn server(spec: &ServerSpec, port: u16) -> String {
        super::server(spec, port, Path::new("/d/l\"og"))
    }

    #[test]
    fn a_server_listens_on_loopback_and_syncs_as_told() {
        let mut spec = ServerSpec {
            name: "mesh".to_owned(),
            candidates: Vec::new(),
            search_path: None,
            dir: "/d".into(),
            store_dir: "/d/js".into(),
            listen: Ipv4Addr::LOCALHOST.into(),
            port: 0,
            max_payload: 1 << 20,
            sync: SyncPolicy::Always,
            tls: Some(TlsFiles {
                cert: "/d/c\"ert.pem".into(),
                key: "/d/key.pem".into(),
            }),
            accounts: String::new(),
            edge_users: String::new(),
        };
        let text = server(&spec, 4333);
        assert!(text.contains("listen: \"127.0.0.1:4333\"\n"), "{text}");
        assert!(text.contains("sync_interval: always\n"), "{text}");
        assert!(text.contains("cert_file: \"/d/c\\\"ert.pem\"\n"), "{text}");
        assert!(
            text.contains(
                "log_file: \"/d/l\\\"og\"\nlogfile_size_limit: 16MB\nlogfile_max_num: 4\n"
            ),
            "{text}"
        );
        spec.listen = "::".parse().unwrap();
        assert!(server(&spec, 1).contains("listen: \"[::]:1\"\n"));
        spec.sync = SyncPolicy::Every(Duration::from_secs(5));
        spec.tls = None;
        let text = server(&spec, 1);
        assert!(text.contains("sync_interval: \"5s\"\n"), "{text}");
        assert!(!text.contains("tls"), "{text}");
    }
}
