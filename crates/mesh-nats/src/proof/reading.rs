//! Takes apart what a server says, whatever that is: nothing of it is waited for before it is bounded.

use bytes::{Buf, Bytes, BytesMut};

/// What has been read and not taken yet.
#[derive(Debug, Default)]
pub(super) struct Reading {
    held: BytesMut,
    /// How much of it is known to hold no end of a line.
    searched: usize,
    /// The message of which the line has been taken.
    awaited: Option<Awaited>,
}

/// What a server says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Heard {
    /// A message of a subscription.
    Message(Message),
    /// A refusal, without the quotes around it.
    Refusal(String),
    /// It asks whether anybody is there.
    Ping,
    /// It has read everything before the `PING`.
    Pong,
}

/// One message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Message {
    /// Where it was published.
    pub(super) subject: String,
    /// The headers as they are, the line of the status first.
    pub(super) headers: Bytes,
    /// The body.
    pub(super) body: Bytes,
}

#[derive(Debug)]
struct Awaited {
    subject: String,
    head: usize,
    size: usize,
}

/// Something no server says.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unreadable {
    /// No end of a line comes.
    #[error("the server says a line of more than {LINE} bytes")]
    Line,
    /// A message has another form.
    #[error("the server says {:?}", mesh_model::one_line(.0))]
    Form(String),
    /// More than is waited for.
    #[error("the server sends a message of {0} bytes, and {BODY} are read at most")]
    Size(usize),
}

impl Reading {
    /// Where more is to be read into.
    pub(super) fn more(&mut self) -> &mut BytesMut {
        self.held.reserve(AT_ONCE);
        &mut self.held
    }

    /// The next thing said, once all of it is there.
    pub(super) fn take(&mut self) -> Result<Option<Heard>, Unreadable> {
        loop {
            if self.awaited.is_some() {
                return self.message();
            }
            let Some(line) = self.line()? else {
                return Ok(None);
            };
            let words: Vec<&str> = line.split_ascii_whitespace().collect();
            let (subject, head, size) = match *words.as_slice() {
                ["PING"] => return Ok(Some(Heard::Ping)),
                ["PONG"] => return Ok(Some(Heard::Pong)),
                ["-ERR", ..] => return Ok(Some(Heard::Refusal(refusal(&line)))),
                // Of a message: its subject, the subscription's number, a reply where there is one, its size.
                ["MSG", subject, _, size] | ["MSG", subject, _, _, size] => (subject, "0", size),
                ["HMSG", subject, _, head, size] | ["HMSG", subject, _, _, head, size] => {
                    (subject, head, size)
                }
                ["MSG" | "HMSG", ..] => return Err(Unreadable::Form(line)),
                _ => continue,
            };
            let (Ok(head), Ok(size)) = (head.parse::<usize>(), size.parse::<usize>()) else {
                return Err(Unreadable::Form(line));
            };
            if size > BODY {
                return Err(Unreadable::Size(size));
            }
            if head > size {
                return Err(Unreadable::Form(line));
            }
            self.awaited = Some(Awaited {
                subject: subject.to_owned(),
                head,
                size,
            });
        }
    }

    fn message(&mut self) -> Result<Option<Heard>, Unreadable> {
        let whole = |awaited: &mut Awaited| self.held.len() >= awaited.size + END.len();
        let Some(Awaited {
            subject,
            head,
            size,
        }) = self.awaited.take_if(whole)
        else {
            return Ok(None);
        };
        let mut body = self.held.split_to(size).freeze();
        let headers = body.split_to(head);
        if !self.held.starts_with(END) {
            return Err(Unreadable::Form(subject));
        }
        self.held.advance(END.len());
        Ok(Some(Heard::Message(Message {
            subject,
            headers,
            body,
        })))
    }

    fn line(&mut self) -> Result<Option<String>, Unreadable> {
        // The end may have begun with the last byte there was.
        let from = self.searched.saturating_sub(1);
        let rest = self.held.get(from..).unwrap_or_default();
        let end = rest.windows(END.len()).position(|pair| pair == END);
        let length = end.map_or(self.held.len(), |end| from + end);
        if length > LINE {
            return Err(Unreadable::Line);
        }
        self.searched = length;
        if end.is_none() {
            return Ok(None);
        }
        let line = self.held.split_to(length);
        self.held.advance(END.len());
        self.searched = 0;
        Ok(Some(String::from_utf8_lossy(&line).into_owned()))
    }
}

fn refusal(line: &str) -> String {
    let why = line.trim().trim_start_matches("-ERR").trim();
    why.trim_matches('\'').to_owned()
}

const END: &[u8] = b"\r\n";
/// More than any line of a server's.
pub(super) const LINE: usize = 64 << 10;
/// More than any answer to a proof.
const BODY: usize = 8 << 20;
const AT_ONCE: usize = 8 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    /// All that is said in these bytes, read in pieces of so many.
    fn said(bytes: &[u8], piece: usize) -> (Vec<Heard>, Option<Unreadable>) {
        let mut reading = Reading::default();
        let mut all = Vec::new();
        for piece in bytes.chunks(piece) {
            reading.more().extend_from_slice(piece);
            loop {
                match reading.take() {
                    Ok(Some(heard)) => all.push(heard),
                    Ok(None) => break,
                    Err(error) => return (all, Some(error)),
                }
            }
        }
        (all, None)
    }

    #[test]
    fn a_server_is_understood_in_pieces_of_any_size() {
        let bytes = b"INFO {}\r\n+OK\r\nPING\r\nMSG a.b 1 5\r\n1\r\n23\r\nMSG a 1 r 0\r\n\r\n-ERR 'No, not'\r\n\
                      HMSG a 1 12 14\r\nNATS/1.0\r\n\r\nhi\r\nHMSG a 1 r 12 12\r\nNATS/1.0\r\n\r\n\r\nPONG\r\nPO";
        let message = |subject: &str, headers: &'static str, body: &'static str| {
            Heard::Message(Message {
                subject: subject.to_owned(),
                headers: headers.into(),
                body: body.into(),
            })
        };
        let expected = [
            Heard::Ping,
            message("a.b", "", "1\r\n23"),
            message("a", "", ""),
            Heard::Refusal("No, not".to_owned()),
            message("a", "NATS/1.0\r\n\r\n", "hi"),
            message("a", "NATS/1.0\r\n\r\n", ""),
            Heard::Pong,
        ];
        for piece in 1..bytes.len() {
            assert_eq!(said(bytes, piece), (expected.to_vec(), None), "{piece}");
        }
    }

    #[test]
    fn what_has_no_end_or_no_such_form_is_not_waited_for() {
        let form = |line: &str| Unreadable::Form(line.to_owned());
        let huge = format!("MSG a 1 {}\r\n", usize::MAX);
        let long = "x".repeat(LINE + 1);
        for (text, error) in [
            (huge.as_str(), Unreadable::Size(usize::MAX)),
            ("MSG a 1 8388609\r\n", Unreadable::Size(8_388_609)),
            (
                "MSG a 1 18446744073709551616\r\n",
                form("MSG a 1 18446744073709551616"),
            ),
            ("HMSG a 1 3 2\r\nab\r\n", form("HMSG a 1 3 2")),
            ("MSG a 1 -1\r\n", form("MSG a 1 -1")),
            ("MSG\r\n", form("MSG")),
            ("MSG a 1 b c 1\r\n", form("MSG a 1 b c 1")),
            ("MSG a 1 1\r\nab\r\n", form("a")),
            (long.as_str(), Unreadable::Line),
        ] {
            for piece in [1, 7, text.len()] {
                let found = said(text.as_bytes(), piece);
                assert_eq!(found, (vec![], Some(error.clone())), "{text:.40}");
            }
        }
    }

    /// What bytes are made of here: what a server says, and its parts in no order.
    const PARTS: [&[u8]; 16] = [
        b"MSG ",
        b"HMSG ",
        b"\r\n",
        b"\r",
        b"\n",
        b" ",
        b"0",
        b"12",
        b"99999999999999999999",
        b"a.b",
        b"-ERR '",
        b"PING",
        b"PONG",
        b"NATS/1.0\r\n\r\n",
        b"\xff\xfe",
        b"\0",
    ];

    #[test]
    fn no_bytes_are_more_than_said_or_refused_and_pieces_make_no_difference() {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut next = move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            usize::try_from(state % 1_000_003).unwrap()
        };
        let mut heard = 0;
        for _ in 0..20_000 {
            let mut bytes = Vec::new();
            for _ in 0..next() % 12 {
                bytes.extend_from_slice(PARTS[next() % PARTS.len()]);
            }
            let whole = said(&bytes, bytes.len().max(1));
            assert_eq!(said(&bytes, 1), whole, "{bytes:?}");
            assert_eq!(said(&bytes, 1 + next() % 5), whole, "{bytes:?}");
            heard += whole.0.len();
        }
        assert!(heard > 1000, "{heard}");
    }
}
