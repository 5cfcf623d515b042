//! What runs in the containers of tests: the first argument says as what. It is also built as one file that needs no other.

use std::env::args;
use std::io::{Read, Write, stdout};
use std::net::{TcpListener, TcpStream};
use std::process::ExitCode;
use std::thread::{park, sleep};
use std::time::Duration;

fn main() -> std::io::Result<ExitCode> {
    let arguments: Vec<String> = args().skip(1).collect();
    let argument = |nth: usize| arguments.get(nth).map(String::as_str);
    let number = |nth: usize, or: u16| argument(nth).and_then(|it| it.parse().ok()).unwrap_or(or);
    match argument(0) {
        Some("serve") => serve(number(1, 80), number(2, 200))?,
        // Says so much as to end, after a while in milliseconds.
        Some("exit") => {
            pause(number(2, 0));
            let code = u8::try_from(number(1, 0)).unwrap_or(u8::MAX);
            return Ok(ExitCode::from(code));
        }
        Some("env") => {
            environment(&mut stdout())?;
            rest();
        }
        Some("spam") => spam()?,
        Some("eat") => eat(number(1, 0))?,
        // Prints a file, and so proves that it is there.
        Some("cat") => {
            let text = std::fs::read(argument(1).unwrap_or_default())?;
            stdout().write_all(&text)?;
        }
        Some("check") => return Ok(ExitCode::from(u8::from(number(1, 0) != 0))),
        _ => rest(),
    }
    Ok(ExitCode::SUCCESS)
}

#[expect(
    clippy::disallowed_methods,
    reason = "it stands in for a program that takes its time"
)]
fn pause(milliseconds: u16) {
    sleep(Duration::from_millis(milliseconds.into()));
}

fn rest() -> ! {
    loop {
        park();
    }
}

/// Answers HTTP with a status, and tells at `/env` what it was given.
fn serve(port: u16, status: u16) -> std::io::Result<()> {
    let listener = TcpListener::bind(("0.0.0.0", port))?;
    writeln!(stdout(), "serving on {port}")?;
    for stream in listener.incoming() {
        // Who goes away early is no concern of others.
        let _answered = stream.and_then(|stream| answer(stream, status));
    }
    Ok(())
}

fn answer(mut stream: TcpStream, status: u16) -> std::io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    let mut asked = [0; 1024];
    let read = stream.read(&mut asked)?;
    let mut body = Vec::new();
    if asked
        .get(..read)
        .is_some_and(|asked| asked.starts_with(b"GET /env "))
    {
        environment(&mut body)?;
    }
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 {status} .\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n"
    )?;
    stream.write_all(&body)
}

/// Each variable on a line, as a literal of Rust, so that a line is a variable whatever stands in it.
fn environment(to: &mut dyn Write) -> std::io::Result<()> {
    for (name, value) in std::env::vars() {
        writeln!(to, "{name}={value:?}")?;
    }
    to.flush()
}

/// Says a megabyte a second.
fn spam() -> std::io::Result<()> {
    let line = [&[b'x'; 1023][..], b"\n"].concat();
    loop {
        for _ in 0..100 {
            stdout().write_all(&line)?;
        }
        stdout().flush()?;
        pause(100);
    }
}

/// Takes so many MiB of memory, and keeps it.
fn eat(mib: u16) -> std::io::Result<()> {
    let taken = vec![7_u8; usize::from(mib) << 20];
    writeln!(stdout(), "took {} bytes", taken.len())?;
    rest()
}
