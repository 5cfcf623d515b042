//! Secrets, and credentials that are replaced.

use std::fs::File;
use std::io::{IsTerminal, Read};
use std::process::ExitCode;

use anyhow::{Context, bail};
use mesh_api::{Rotate as RotateRequest, SecretLine, SecretValue};
use mesh_control::SECRET_LIMIT;
use mesh_model::{ModuleName, SecretName};

use crate::cli::{Cli, Output, Rotate, SecretSet};
use crate::declare::{agreed_at_the_terminal, done, wait};
use crate::out;
use crate::table::{ago, table};

/// Sets a secret, and waits until the modules that need it have it.
pub(crate) async fn set(cli: &Cli, set: &SecretSet) -> anyhow::Result<ExitCode> {
    let bytes = if let Some(path) = &set.file {
        let what = || format!("{} cannot be read", path.display());
        read(File::open(path).with_context(what)?).with_context(what)?
    } else {
        if std::io::stdin().is_terminal() {
            out::note("the value, and then Ctrl-D; what you type is seen on this terminal:");
        }
        read(std::io::stdin().lock()).context("standard input cannot be read")?
    };
    let (value, said) = value_of(bytes, set.raw)?;
    let secret = &set.secret;
    let applied = cli.client().set_secret(secret, &value).await?;
    out::note(&format!("secret {secret} is set, {said}"));
    wait(cli, applied.revision).await
}

/// No more than a secret may have: a device that never ends is no value.
fn read(from: impl Read) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(SECRET_LIMIT);
    let most = u64::try_from(SECRET_LIMIT).unwrap_or(u64::MAX);
    from.take(most.saturating_add(3)).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The value in what was read, and what was made of it.
fn value_of(mut bytes: Vec<u8>, raw: bool) -> anyhow::Result<(SecretValue, String)> {
    let before = bytes.len();
    if !raw && bytes.last() == Some(&b'\n') {
        bytes.pop();
        if bytes.last() == Some(&b'\r') {
            bytes.pop();
        }
    }
    let left_out = before - bytes.len();
    let length = bytes.len();
    let value = SecretValue::new(bytes);
    if length == 0 {
        bail!("the value is empty; a secret has at least one byte");
    }
    if length > SECRET_LIMIT {
        bail!("the value is longer than {SECRET_LIMIT} bytes, which is what a secret may have");
    }
    let bytes = if length == 1 { "byte" } else { "bytes" };
    let said = if left_out > 0 {
        format!("{length} {bytes}; the line end behind it was left out, --raw keeps it")
    } else {
        format!("{length} {bytes}")
    };
    Ok((value, said))
}

/// Lists secrets, without their values.
pub(crate) async fn list(cli: &Cli) -> anyhow::Result<ExitCode> {
    let secrets = cli.client().secrets().await?;
    let now = mesh_host::now();
    let row = |line: &SecretLine| {
        let modules: Vec<&str> = line.modules.iter().map(ModuleName::as_str).collect();
        let modules = modules.join(", ");
        [
            line.secret.to_string(),
            line.version.to_string(),
            ago(now.since(line.set)),
            if modules.is_empty() {
                "-".to_owned()
            } else {
                modules
            },
        ]
    };
    match cli.output {
        Output::Json => out::json("SecretList", &secrets)?,
        Output::Name => {
            for line in &secrets.items {
                out::data(&format!("{}\n", line.secret));
            }
        }
        Output::Table => {
            let rows: Vec<_> = secrets.items.iter().map(row).collect();
            out::data(&table(["SECRET", "VERSION", "SET", "MODULES"], &rows));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Forgets a secret.
pub(crate) async fn remove(cli: &Cli, secret: &SecretName, yes: bool) -> anyhow::Result<ExitCode> {
    if !yes {
        if !std::io::stdin().is_terminal() {
            bail!("a secret that is removed is nowhere to be had again; say so with --yes");
        }
        if !agreed_at_the_terminal(&format!("forget secret {secret}?"))? {
            bail!("secret {secret} is left as it is");
        }
    }
    let applied = cli.client().remove_secret(secret).await?;
    done(cli, applied.revision)
}

/// Replaces a module's credentials, and waits until its nodes have the new ones.
pub(crate) async fn rotate(cli: &Cli, asked: &Rotate) -> anyhow::Result<ExitCode> {
    let overlap = asked
        .overlap
        .map(|overlap| u64::try_from(overlap.as_millis()));
    let request = RotateRequest {
        node: asked.node.clone(),
        overlap_millis: overlap.transpose()?,
    };
    let applied = cli.client().rotate(&asked.module, &request).await?;
    wait(cli, applied.revision).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_end_is_left_out_unless_every_byte_is_asked_for() {
        for (given, raw, expected, said) in [
            (&b"hunter2\n"[..], false, &b"hunter2"[..], "left out"),
            (b"hunter2\r\n", false, b"hunter2", "left out"),
            (b"hunter2\n\n", false, b"hunter2\n", "left out"),
            (b"hunter2", false, b"hunter2", "7 bytes"),
            (b"hunter2\n", true, b"hunter2\n", "8 bytes"),
            (b"\0\xff\r", false, b"\0\xff\r", "3 bytes"),
            (b"x", false, b"x", "1 byte"),
        ] {
            let (value, told) = value_of(given.to_vec(), raw).unwrap();
            assert_eq!(value.expose(), expected, "{given:?}");
            assert!(told.contains(said) && !told.contains("hunter"), "{told}");
        }
    }

    #[test]
    fn what_is_empty_or_too_long_is_refused_without_a_part_of_it() {
        for (given, said) in [
            (Vec::new(), "is empty"),
            (b"\r\n".to_vec(), "is empty"),
            (vec![b'x'; SECRET_LIMIT + 1], "longer than 65536 bytes"),
        ] {
            let error = value_of(given, false).unwrap_err().to_string();
            assert!(error.contains(said) && !error.contains("xx"), "{error}");
        }
        let whole = vec![b'x'; SECRET_LIMIT];
        let with_end = [&whole[..], b"\r\n"].concat();
        assert_eq!(value_of(with_end, false).unwrap().0.expose(), whole);
        assert_eq!(read(std::io::repeat(b'x')).unwrap().len(), SECRET_LIMIT + 3);
    }
}
