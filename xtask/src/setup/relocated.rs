//! Makes an Erlang that was unpacked into a folder run from there, on whatever libraries the machine has.
//!
//! Its programs are started through the loader unpacked beside them, with the libraries unpacked beside them. So it takes
//! no root, no mount and no change of the root folder, and the folder may be moved.

use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

/// Where Erlang is below the root.
const ERLANG: &str = "usr/lib/erlang";

/// Has every program of the Erlang below a root start from where it is.
pub(super) fn relocate(root: &Path) -> Result<()> {
    let loader = loader(root)?;
    let programs = programs(&root.join(ERLANG))?;
    ensure!(!programs.is_empty(), "the packages hold no Erlang");
    for program in &programs {
        let inside = program.strip_prefix(root)?;
        let up = "../".repeat(inside.components().count().saturating_sub(1));
        let mut real = program.clone().into_os_string();
        real.push(".elf");
        fs::rename(program, real)?;
        script(program, &launcher(&up, &loader))?;
    }
    let erts = only(&root.join(ERLANG), |name| name.starts_with("erts-"))?;
    script(&root.join(ERLANG).join("bin/erl"), &erl(&erts))
}

/// What is started in the place of a program, `up` from the root. It becomes the program, so its process is the program's.
fn launcher(up: &str, loader: &str) -> String {
    format!(
        "#!/bin/sh\nfile=$(readlink -f \"$0\")\nlib=$(readlink -f \"${{file%/*}}/{up}usr/lib\")\nloader=$lib/{loader}\n\
         exec \"$loader\" --inhibit-cache --library-path \"${{loader%/*}}\" \"$file.elf\" \"$@\"\n"
    )
}

/// What starts Erlang: the distribution's own script knows one folder only.
fn erl(erts: &str) -> String {
    format!(
        "#!/bin/sh\nfile=$(readlink -f \"$0\")\nROOTDIR=${{file%/bin/erl}}\nBINDIR=$ROOTDIR/{erts}/bin\nEMU=beam\n\
         PROGNAME=erl\nexport ROOTDIR BINDIR EMU PROGNAME\nexec \"$BINDIR/erlexec\" \"$@\"\n"
    )
}

/// The loader, below `usr/lib`.
fn loader(root: &Path) -> Result<String> {
    let libraries = root.join("usr/lib");
    let folder = only(&libraries, |name| name.contains("-linux-gnu"))?;
    let file = only(&libraries.join(&folder), |name| {
        name.starts_with("ld-linux")
    })?;
    Ok(format!("{folder}/{file}"))
}

/// The one entry of a folder with such a name.
fn only(folder: &Path, is: impl Fn(&str) -> bool) -> Result<String> {
    let mut names = entries(folder)?
        .into_iter()
        .filter_map(|path| Some(path.file_name()?.to_str()?.to_owned()))
        .filter(|name| is(name));
    let name = names.next();
    ensure!(
        names.next().is_none(),
        "{} holds two of a kind",
        folder.display()
    );
    name.with_context(|| format!("{} does not hold what was expected", folder.display()))
}

/// The programs below a folder that a loader starts.
fn programs(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for path in entries(&folder)? {
            let about = path.symlink_metadata()?;
            if about.is_dir() {
                folders.push(path);
            } else if about.is_file() && about.permissions().mode() & 0o111 != 0 && is_elf(&path)? {
                found.push(path);
            }
        }
    }
    Ok(found)
}

fn is_elf(path: &Path) -> Result<bool> {
    let mut begin = Vec::new();
    fs::File::open(path)?.take(4).read_to_end(&mut begin)?;
    Ok(begin == b"\x7fELF")
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let listing = || format!("listing {}", folder.display());
    fs::read_dir(folder)
        .with_context(listing)?
        .map(|entry| Ok(entry.with_context(listing)?.path()))
        .collect()
}

fn script(place: &Path, text: &str) -> Result<()> {
    let writing = || format!("writing {}", place.display());
    fs::write(place, text).with_context(writing)?;
    fs::set_permissions(place, fs::Permissions::from_mode(0o755)).with_context(writing)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::process::Command;

    use super::*;

    /// A root whose loader says with what it was started.
    fn root(at: &Path) {
        for folder in [
            "usr/lib/some-linux-gnu",
            "usr/lib/erlang/bin",
            "usr/lib/erlang/erts-1/bin",
        ] {
            fs::create_dir_all(at.join(folder)).unwrap();
        }
        let says = "#!/bin/sh\necho \"$ROOTDIR|$BINDIR\"\nprintf '%s\\n' \"$@\"\n";
        script(&at.join("usr/lib/some-linux-gnu/ld-linux-some.so.2"), says).unwrap();
        for program in ["erlexec", "epmd"] {
            script(
                &at.join("usr/lib/erlang/erts-1/bin").join(program),
                "\x7fELF..",
            )
            .unwrap();
        }
        fs::write(at.join("usr/lib/erlang/erts-1/bin/library.so"), "\x7fELF..").unwrap();
        script(&at.join("usr/lib/erlang/bin/start"), "#!/bin/sh\n").unwrap();
        symlink("../erts-1/bin/epmd", at.join("usr/lib/erlang/bin/epmd")).unwrap();
    }

    fn says(program: &Path, arguments: &[&str]) -> String {
        let output = Command::new(program)
            .args(arguments)
            .env_clear()
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    #[test]
    fn a_program_starts_through_the_loader_beside_it_even_by_a_link_and_after_a_move() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        let (made, moved) = (folder.join("made"), folder.join("moved here"));
        root(&made);
        relocate(&made).unwrap();
        fs::rename(&made, &moved).unwrap();

        let lib = moved.join("usr/lib/some-linux-gnu");
        let real = moved.join("usr/lib/erlang/erts-1/bin/epmd.elf");
        let expected = format!(
            "|\n--inhibit-cache\n--library-path\n{}\n{}\n-port\na b\n",
            lib.display(),
            real.display()
        );
        assert_eq!(
            says(&moved.join("usr/lib/erlang/bin/epmd"), &["-port", "a b"]),
            expected
        );
        // A library is loaded by a program, and a script by the machine's shell: both stay.
        assert!(
            !moved
                .join("usr/lib/erlang/erts-1/bin/library.so.elf")
                .exists()
        );
        assert!(!moved.join("usr/lib/erlang/bin/start.elf").exists());
    }

    #[test]
    fn erlang_is_told_the_folder_it_was_unpacked_into() {
        let folder = tempfile::tempdir().unwrap();
        let made = folder.path().canonicalize().unwrap().join("made");
        root(&made);
        relocate(&made).unwrap();
        let erlang = made.join(ERLANG);
        let said = says(&erlang.join("bin/erl"), &["-noinput"]);
        let told = format!("{0}|{0}/erts-1/bin\n", erlang.display());
        assert!(
            said.starts_with(&told) && said.ends_with("erlexec.elf\n-noinput\n"),
            "{said}"
        );
    }

    #[test]
    fn a_root_without_a_loader_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        root(folder.path());
        fs::remove_file(
            folder
                .path()
                .join("usr/lib/some-linux-gnu/ld-linux-some.so.2"),
        )
        .unwrap();
        relocate(folder.path()).unwrap_err();
    }
}
