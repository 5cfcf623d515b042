//! Tables: columns as wide as what stands in them.

/// Rows under a heading, as text.
pub(crate) fn table<const N: usize>(heading: [&str; N], rows: &[[String; N]]) -> String {
    let mut widths = heading.map(str::len);
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = line(&heading.map(str::to_owned), &widths);
    for row in rows {
        text.push_str(&line(row, &widths));
    }
    text
}

fn line<const N: usize>(cells: &[String; N], widths: &[usize; N]) -> String {
    let cells = cells.iter().zip(widths);
    let padded: Vec<String> = cells
        .map(|(cell, width)| format!("{cell:width$}"))
        .collect();
    format!("{}\n", padded.join("  ").trim_end())
}

/// How long ago, for people.
pub(crate) fn ago(millis: u64) -> String {
    match millis / 1000 {
        0 => "now".to_owned(),
        seconds @ 1..=119 => format!("{seconds}s"),
        seconds @ 120..=7199 => format!("{}m", seconds / 60),
        seconds => format!("{}h", seconds / 3600),
    }
}

/// What is not there, as a dash.
pub(crate) fn dash(text: Option<impl ToString>) -> String {
    text.map_or_else(|| "-".to_owned(), |text| text.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [["a".into(), "1".into()], ["longer".into(), "2".into()]];
        assert_eq!(
            table(["NAME", "N"], &rows),
            "NAME    N\na       1\nlonger  2\n"
        );
    }
}
