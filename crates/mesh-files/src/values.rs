//! Texts that stand for a time or a size, and what may have been meant by a wrong text: an offer that is made only if it is
//! a right one.

use std::str::FromStr;

use crate::source::as_label;

/// A time in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Millis(pub(crate) u64);

/// A text that is no time.
#[derive(Debug, thiserror::Error)]
#[error("{0:?} is no time: write a number and ms, s, m or h, as \"30s\"")]
pub(crate) struct InvalidTime(String);

impl FromStr for Millis {
    type Err = InvalidTime;
    fn from_str(text: &str) -> Result<Self, InvalidTime> {
        let units = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000)];
        let time = measured(text, &units).map(Self);
        time.ok_or_else(|| InvalidTime(text.to_owned()))
    }
}

/// A size in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bytes(pub(crate) u64);

/// A text that is no size.
#[derive(Debug, thiserror::Error)]
#[error("{0:?} is no size: write a number and KiB, MiB or GiB (or kB, MB, GB), as \"256MiB\"")]
pub(crate) struct InvalidSize(String);

impl FromStr for Bytes {
    type Err = InvalidSize;
    fn from_str(text: &str) -> Result<Self, InvalidSize> {
        let size = measured(text, &SIZES).map(Self);
        size.ok_or_else(|| InvalidSize(text.to_owned()))
    }
}

const SIZES: [(&str, u64); 6] = [
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
];

/// A whole number and its unit, with nothing between, in one.
fn measured(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let (number, unit) = split(text);
    let (_, times) = units.iter().find(|(name, _)| *name == unit)?;
    // Nine digits of the largest unit are no overflow.
    let number: u64 = number.parse().ok().filter(|_| number.len() <= DIGITS)?;
    number.checked_mul(*times)
}

/// The digits a text begins with, and the rest.
fn split(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit());
    text.split_at(end.unwrap_or(text.len()))
}

/// A time as it is written here, of one written as elsewhere: `5`, `5 s`, `5sec`, `5S`.
pub(crate) fn meant_time(text: &str) -> String {
    let (number, unit) = split(text.trim());
    let unit = unit.trim().to_ascii_lowercase();
    let unit = match unit.as_str() {
        "" | "sec" | "secs" | "second" | "seconds" => "s",
        "min" | "mins" | "minute" | "minutes" => "m",
        "hr" | "hrs" | "hour" | "hours" => "h",
        "ms" | "s" | "m" | "h" => &unit,
        _ => return String::new(),
    };
    format!("{number}{unit}")
}

/// A size as it is written here, of one written as elsewhere: `256m`, `256M`, `256Mi`, `256 MiB`.
pub(crate) fn meant_size(text: &str) -> String {
    let (number, unit) = split(text.trim());
    let unit = match unit.trim().to_ascii_lowercase().as_str() {
        "k" | "kb" | "ki" | "kib" => "KiB",
        "m" | "mb" | "mi" | "mib" => "MiB",
        "g" | "gb" | "gi" | "gib" => "GiB",
        _ => return String::new(),
    };
    format!("{number}{unit}")
}

/// An image with its name in lower case; what is behind a colon keeps its own.
pub(crate) fn meant_image(text: &str) -> String {
    let text = text.trim();
    let text = text.split_once("://").map_or(text, |(_, rest)| rest);
    let name = text.rfind('/').map_or(0, |at| at + 1);
    let end = text
        .get(name..)
        .and_then(|name| name.find([':', '@']))
        .map(|at| name + at);
    let (name, rest) = text.split_at(end.unwrap_or(text.len()));
    format!("{}{rest}", name.to_ascii_lowercase())
}

/// A port of the host and the same of the container, of one alone.
pub(crate) fn meant_port(text: &str) -> String {
    let text = text.trim();
    let (port, protocol) = text.split_once('/').unwrap_or((text, "tcp"));
    let port = if port.contains(':') {
        port.to_owned()
    } else {
        format!("{port}:{port}")
    };
    match protocol.to_ascii_lowercase().as_str() {
        "tcp" => port,
        protocol => format!("{port}/{protocol}"),
    }
}

/// The name of a secret as a variable would be called.
pub(crate) fn meant_secret(text: &str) -> String {
    let name = as_label(text).replace('-', "_").to_ascii_uppercase();
    name.trim_start_matches("MESH_").to_owned()
}

/// Nothing: a text that is wrong in ways of which none is likely.
pub(crate) const fn meant_nothing(_: &str) -> String {
    String::new()
}

/// Digits a time or a size has at most.
const DIGITS: usize = 9;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_a_number_and_its_unit() {
        for (text, expected) in [
            ("500ms", Some(500)),
            ("5s", Some(5_000)),
            ("2m", Some(120_000)),
            ("1h", Some(3_600_000)),
            ("0s", Some(0)),
            ("999999999h", Some(3_599_999_996_400_000)),
            ("1000000000h", None),
            ("5", None),
            ("s", None),
            ("5 s", None),
            (" 5s", None),
            ("+5s", None),
            ("-5s", None),
            ("5.5s", None),
            ("5d", None),
            ("", None),
            ("٥s", None),
        ] {
            let read = text.parse::<Millis>().ok().map(|Millis(millis)| millis);
            assert_eq!(read, expected, "{text}");
        }
    }

    #[test]
    fn a_size_is_a_number_and_its_unit() {
        for (text, expected) in [
            ("256MiB", Some(268_435_456)),
            ("1GiB", Some(1_073_741_824)),
            ("64KiB", Some(65_536)),
            ("1MB", Some(1_000_000)),
            ("999999999GiB", Some(1_073_741_822_926_258_176)),
            ("256m", None),
            ("256", None),
            ("256mib", None),
            ("MiB", None),
        ] {
            let read = text.parse::<Bytes>().ok().map(|Bytes(bytes)| bytes);
            assert_eq!(read, expected, "{text}");
        }
    }

    #[test]
    fn what_is_written_as_elsewhere_is_offered_as_it_is_written_here() {
        type Meant = fn(&str) -> String;
        let cases: [(Meant, &str, &str); 12] = [
            (meant_time, "5", "5s"),
            (meant_time, "5 Sec", "5s"),
            (meant_time, "2min", "2m"),
            (meant_size, "256m", "256MiB"),
            (meant_size, "1 GB", "1GiB"),
            (meant_image, "Mail/Mailer:RC1", "mail/mailer:RC1"),
            (meant_image, "docker://mailer", "mailer"),
            (
                meant_image,
                "localhost:5000/Mailer",
                "localhost:5000/mailer",
            ),
            (meant_port, "8025", "8025:8025"),
            (meant_port, "53/UDP", "53:53/udp"),
            (meant_secret, "smtp-password", "SMTP_PASSWORD"),
            (meant_secret, "mesh_token", "TOKEN"),
        ];
        for (meant, text, expected) in cases {
            assert_eq!(meant(text), expected, "{text}");
        }
    }
}
