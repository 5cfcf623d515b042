//! A server's configuration as a tree: as much of its language as a file of users needs.

/// A value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Conf {
    /// A word, a number or a text.
    Text(String),
    List(Vec<Self>),
    Table(Table),
}

/// Each key with its value, in the order of the file. A key may be there twice.
pub(super) type Table = Vec<(String, Conf)>;

impl Conf {
    /// What stands under a key of a table, the last where there are several.
    pub(super) fn get(&self, key: &str) -> Option<&Self> {
        let Self::Table(table) = self else {
            return None;
        };
        let mut found = table.iter().rev().filter(|(name, _)| name == key);
        found.next().map(|(_, value)| value)
    }

    /// Every text in it, however deep.
    pub(super) fn texts(&self) -> Vec<&str> {
        match self {
            Self::Text(text) => vec![text],
            Self::List(list) => list.iter().flat_map(Self::texts).collect(),
            Self::Table(table) => table.iter().flat_map(|(_, value)| value.texts()).collect(),
        }
    }
}

/// The tree of a text; nothing where it is not understood.
pub(super) fn read(text: &str) -> Option<Table> {
    let mut tokens = tokens(text)?.into_iter();
    table(&mut tokens, None, 0)
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Text(String),
    Mark(char),
}

fn tokens(text: &str) -> Option<Vec<Token>> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let after = rest.get(first.len_utf8()..)?;
        rest = match first {
            // Commas and what stands between a key and its value may be left out, in most places.
            ',' | ';' | ':' | '=' => after,
            _ if first.is_whitespace() => after,
            '#' => after_line(after),
            '/' if after.starts_with('/') => after_line(after),
            '{' | '}' | '[' | ']' => {
                tokens.push(Token::Mark(first));
                after
            }
            '"' | '\'' => {
                let (quoted, after) = quoted(after, first)?;
                tokens.push(Token::Text(quoted));
                after
            }
            _ => {
                let ends = |c: char| c.is_whitespace() || ",;:={}[]#\"'".contains(c);
                let end = rest.find(ends).unwrap_or(rest.len());
                let (word, after) = rest.split_at_checked(end)?;
                tokens.push(Token::Text(word.to_owned()));
                after
            }
        };
    }
    Some(tokens)
}

fn after_line(text: &str) -> &str {
    text.split_once('\n').map_or("", |(_, after)| after)
}

/// A text up to its closing quote, and what follows.
fn quoted(text: &str, quote: char) -> Option<(String, &str)> {
    let mut read = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            _ if character == quote => return Some((read, text.get(at + 1..)?)),
            '\\' if quote == '"' => read.push(characters.next()?.1),
            _ => read.push(character),
        }
    }
    None
}

/// A table up to its closing mark, or to the end of the file.
fn table(
    tokens: &mut impl Iterator<Item = Token>,
    close: Option<char>,
    depth: usize,
) -> Option<Table> {
    let mut read = Table::new();
    loop {
        match tokens.next() {
            None => return close.is_none().then_some(read),
            Some(Token::Mark(mark)) => return (Some(mark) == close).then_some(read),
            Some(Token::Text(key)) => {
                let first = tokens.next()?;
                read.push((key, value(tokens, first, depth)?));
            }
        }
    }
}

fn value(tokens: &mut impl Iterator<Item = Token>, first: Token, depth: usize) -> Option<Conf> {
    if depth > DEEPEST {
        return None;
    }
    match first {
        Token::Text(text) => Some(Conf::Text(text)),
        Token::Mark('{') => table(tokens, Some('}'), depth + 1).map(Conf::Table),
        Token::Mark('[') => {
            let mut list = Vec::new();
            loop {
                match tokens.next()? {
                    Token::Mark(']') => return Some(Conf::List(list)),
                    first => list.push(value(tokens, first, depth + 1)?),
                }
            }
        }
        Token::Mark(_) => None,
    }
}

/// No file of users is deeper: a list, a user, its permissions, a side, what is allowed.
const DEEPEST: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_reads_is_read_however_it_is_laid_out() {
        let written = "users: [\n  # node/a\n  { nkey: U, permissions: {\n publish: { allow: [\"a.>\", \"b\"] } } }\n]\n";
        let otherwise = "// no comment\nusers = [{nkey=U;permissions {publish {allow ['a.>' b]}}}]";
        let tree = read(written).unwrap();
        assert_eq!(read(otherwise), Some(tree.clone()));
        let users = Conf::Table(tree);
        let Some(Conf::List(users)) = users.get("users") else {
            panic!("{users:?}");
        };
        assert_eq!(users[0].get("nkey"), Some(&Conf::Text("U".to_owned())));
        assert_eq!(users[0].get("permissions").unwrap().texts(), ["a.>", "b"]);
    }

    #[test]
    fn what_does_not_close_is_not_understood() {
        let deep = "a [".repeat(100_000);
        for text in [
            "users: [",
            "users: [ { nkey: U ]",
            "}",
            "a: \"b",
            "a",
            &deep,
        ] {
            assert_eq!(read(text), None, "{text:.30}");
        }
    }
}
