//! The least client there can be: the text protocol over a socket, so that nothing but the server says what is allowed.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

use serde_json::Value;

use crate::operations::Operation;

/// Every user's, in a test.
pub(crate) const PASSWORD: &str = "test";
/// How long a server may take for anything.
const DEADLINE: Duration = Duration::from_secs(10);

/// A message, as it arrived.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) subject: String,
    pub(crate) reply: Option<String>,
    pub(crate) body: String,
}

enum Line {
    Message(Message),
    Refusal(String),
    Pong,
}

/// One connection.
pub(crate) struct Client {
    reader: BufReader<TcpStream>,
    writer: TcpStream,
    server_id: String,
    subscriptions: usize,
    requests: usize,
}

impl Client {
    pub(crate) fn connect(port: u16, user: &str) -> Self {
        let writer = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
        writer.set_read_timeout(Some(DEADLINE)).unwrap();
        let mut reader = BufReader::new(writer.try_clone().unwrap());
        let mut info = String::new();
        reader.read_line(&mut info).unwrap();
        let info: Value = serde_json::from_str(info.trim_start_matches("INFO ")).unwrap();
        let mut client = Self {
            reader,
            writer,
            server_id: info["server_id"].as_str().unwrap().to_owned(),
            subscriptions: 0,
            requests: 0,
        };
        let options = serde_json::json!({
            "user": user, "pass": PASSWORD, "verbose": false, "pedantic": false, "headers": true, "protocol": 1,
            "no_responders": true,
        });
        client.send(&format!("CONNECT {options}\r\n"));
        assert_eq!(client.flush(), Vec::<String>::new());
        client
    }

    pub(crate) fn server_id(&self) -> &str {
        &self.server_id
    }

    pub(crate) fn subscribe(&mut self, filter: &str, queue: Option<&str>) {
        self.subscriptions += 1;
        let queue = queue.map(|queue| format!("{queue} ")).unwrap_or_default();
        self.send(&format!("SUB {filter} {queue}{}\r\n", self.subscriptions));
    }

    pub(crate) fn publish(&mut self, subject: &str, reply: Option<&str>, body: &str) {
        let reply = reply.map(|reply| format!("{reply} ")).unwrap_or_default();
        self.send(&format!(
            "PUB {subject} {reply}{}\r\n{body}\r\n",
            body.len()
        ));
    }

    /// Publishes and waits for the answer, in an inbox already subscribed.
    pub(crate) fn request(&mut self, subject: &str, inbox: &str, body: &str) -> String {
        self.requests += 1;
        let inbox = format!("{inbox}.{}", self.requests);
        self.publish(subject, Some(&inbox), body);
        self.next(&inbox).body
    }

    /// The next message on a subject; others are passed over, a refusal is a failure.
    pub(crate) fn next(&mut self, subject: &str) -> Message {
        loop {
            match self.line() {
                Line::Message(message) if message.subject == subject => return message,
                Line::Refusal(refusal) => panic!("waiting for {subject}: {refusal}"),
                Line::Message(_) | Line::Pong => {}
            }
        }
    }

    /// Waits until the server has taken everything sent; nothing was refused.
    pub(crate) fn settle(&mut self) {
        assert_eq!(self.flush(), Vec::<String>::new());
    }

    /// Does one thing, and returns how the server refused it.
    pub(crate) fn attempt(&mut self, operation: &Operation) -> Vec<String> {
        match operation {
            Operation::Publish(subject) => self.publish(subject.as_str(), None, ""),
            Operation::Subscribe(filter, queue) => {
                self.subscribe(filter.as_str(), queue.as_deref());
            }
        }
        self.flush()
    }

    fn flush(&mut self) -> Vec<String> {
        self.send("PING\r\n");
        let mut refusals = Vec::new();
        loop {
            match self.line() {
                Line::Pong => return refusals,
                Line::Refusal(refusal) => refusals.push(refusal),
                Line::Message(_) => {}
            }
        }
    }

    fn send(&mut self, text: &str) {
        self.writer.write_all(text.as_bytes()).unwrap();
    }

    fn line(&mut self) -> Line {
        loop {
            let mut line = String::new();
            let read = self.reader.read_line(&mut line).unwrap();
            assert_ne!(read, 0, "the server closed the connection");
            let words: Vec<&str> = line.split_whitespace().collect();
            match words.as_slice() {
                ["PING"] => self.send("PONG\r\n"),
                ["PONG"] => return Line::Pong,
                ["-ERR", ..] => return Line::Refusal(line.trim_end().to_owned()),
                ["MSG", subject, _, rest @ .., length] => {
                    let (subject, reply) = (subject, rest.first());
                    return self.message(subject, reply.copied(), "0", length);
                }
                ["HMSG", subject, _, rest @ .., head, length] => {
                    return self.message(subject, rest.first().copied(), head, length);
                }
                _ => {}
            }
        }
    }

    fn message(&mut self, subject: &str, reply: Option<&str>, head: &str, length: &str) -> Line {
        let (head, length): (usize, usize) = (head.parse().unwrap(), length.parse().unwrap());
        let mut bytes = vec![0; length + 2];
        self.reader.read_exact(&mut bytes).unwrap();
        Line::Message(Message {
            subject: subject.to_owned(),
            reply: reply.map(ToOwned::to_owned),
            body: String::from_utf8(bytes[head..length].to_vec()).unwrap(),
        })
    }
}

/// Tries until there is something, or the deadline has passed.
pub(crate) fn until<T>(what: &str, mut attempt: impl FnMut() -> Option<T>) -> T {
    let tries = 1000;
    for _ in 0..tries {
        if let Some(found) = attempt() {
            return found;
        }
        std::thread::park_timeout(DEADLINE / tries);
    }
    panic!("{what}: not within {DEADLINE:?}");
}
