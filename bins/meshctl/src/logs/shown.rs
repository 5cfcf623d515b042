//! A line of a log as it is shown: byte for byte, unless a terminal would do what is written in it.

use std::fmt::Write;

use mesh_model::NodeName;

/// How lines are shown.
#[derive(Debug)]
pub(super) struct Shown {
    /// Somebody looks at it: what steers a terminal is spelled out.
    terminal: bool,
    /// There are several nodes, so each line says which.
    named: bool,
}

impl Shown {
    pub(super) fn new(terminal: bool) -> Self {
        Self {
            terminal,
            named: false,
        }
    }

    /// From so many nodes.
    pub(super) fn of(&mut self, nodes: usize) {
        self.named = nodes > 1;
    }

    /// One line, with its end.
    pub(super) fn line(&self, node: &NodeName, bytes: &[u8], cut: bool) -> Vec<u8> {
        let mut line = Vec::with_capacity(bytes.len() + 80);
        if self.named {
            line.extend_from_slice(format!("{node} | ").as_bytes());
        }
        if self.terminal {
            line.extend_from_slice(spelled(bytes).as_bytes());
        } else {
            line.extend_from_slice(bytes);
        }
        if cut {
            line.extend_from_slice("…".as_bytes());
        }
        line.push(b'\n');
        line
    }
}

/// With everything that would steer a terminal, or turn the direction of writing, as what it is.
fn spelled(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '\t' => text.push('\t'),
                plain
                    if mesh_model::one_line(plain.encode_utf8(&mut [0; 4])).starts_with(plain) =>
                {
                    text.push(plain);
                }
                steers if steers.is_ascii() => spell(&mut text, steers as u8),
                steers => text.extend(steers.escape_unicode()),
            }
        }
        for byte in chunk.invalid() {
            spell(&mut text, *byte);
        }
    }
    text
}

fn spell(text: &mut String, byte: u8) {
    // Writing to a text does not fail.
    let _written = write!(text, "\\x{byte:02x}");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(terminal: bool, nodes: usize, bytes: &[u8]) -> Vec<u8> {
        let mut shown = Shown::new(terminal);
        shown.of(nodes);
        shown.line(&"one".parse().unwrap(), bytes, false)
    }

    #[test]
    fn a_program_gets_the_bytes_and_a_terminal_what_they_are() {
        for (bytes, on_a_terminal) in [
            (&b"listening on :80"[..], "listening on :80"),
            (b"a\tb", "a\tb"),
            (b"\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"),
            (b"\rnothing happened", "\\x0dnothing happened"),
            (b"half \xff a \xc3", "half \\xff a \\xc3"),
            (
                "gr\u{fc}\u{df}e \u{1f600}".as_bytes(),
                "gr\u{fc}\u{df}e \u{1f600}",
            ),
            ("\u{9b}31m \u{202e}x".as_bytes(), "\\u{9b}31m \\u{202e}x"),
            (b"back\\slash", "back\\slash"),
        ] {
            let raw = [bytes, b"\n"].concat();
            assert_eq!(shown(false, 1, bytes), raw);
            assert_eq!(shown(false, 2, bytes), [b"one | ", &raw[..]].concat());
            let line = format!("{on_a_terminal}\n");
            assert_eq!(String::from_utf8(shown(true, 1, bytes)).unwrap(), line);
        }
    }

    #[test]
    fn a_line_that_was_longer_says_so() {
        let line = Shown::new(false).line(&"one".parse().unwrap(), b"long", true);
        assert_eq!(line, "long…\n".as_bytes());
    }
}
