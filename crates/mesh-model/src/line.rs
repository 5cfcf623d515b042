//! Text somebody else wrote, as it is shown: one line, not too long, and nothing in it steers a terminal.

/// Bytes such a line has at most.
const LINE: usize = 500;

/// A text as one line of at most 500 bytes: what steers a terminal or turns the direction of writing is a space, and
/// the end of a longer text is left out. A line stays as it is.
pub fn one_line(text: &str) -> String {
    let mut line = String::new();
    for character in text.chars() {
        let shown = if steers(character) { ' ' } else { character };
        if line.len() + shown.len_utf8() > LINE {
            break;
        }
        line.push(shown);
    }
    line
}

fn steers(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_becomes_one_line_that_steers_nothing() {
        for (text, line) in [
            ("", ""),
            ("no such program: /bin/x", "no such program: /bin/x"),
            ("a\r\nb\u{1b}[2Jc\0", "a  b [2Jc "),
            ("a\u{202e}b\u{2028}c", "a b c"),
        ] {
            assert_eq!(one_line(text), line, "{text:?}");
        }
    }

    #[test]
    fn a_line_is_bounded_and_cut_between_characters() {
        let long = one_line(&"ä€".repeat(1_000));
        assert_eq!((long.len(), one_line(&long)), (500, long.clone()));
        assert_eq!(one_line(&"€".repeat(1_000)).len(), 498);
    }
}
