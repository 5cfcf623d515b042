//! Tables: columns as wide as what stands in them.

/// Rows under a heading, as text.
pub(crate) fn table<const N: usize>(heading: [&str; N], rows: &[[String; N]]) -> String {
    table_without(heading, rows, &[])
}

/// The same, without these columns.
pub(crate) fn table_without<const N: usize>(
    heading: [&str; N],
    rows: &[[String; N]],
    without: &[&str],
) -> String {
    let cells = |cells: Vec<&str>| {
        let shown = cells.into_iter().zip(heading);
        let shown = shown.filter(|(_, of)| !without.contains(of));
        shown.map(|(cell, _)| cell.to_owned()).collect::<Vec<_>>()
    };
    let mut lines = vec![cells(heading.to_vec())];
    lines.extend(
        rows.iter()
            .map(|row| cells(row.iter().map(String::as_str).collect())),
    );
    let mut widths: Vec<usize> = Vec::new();
    for line in &lines {
        widths.resize(line.len(), 0);
        for (width, cell) in widths.iter_mut().zip(line) {
            *width = (*width).max(cell.chars().count());
        }
    }
    lines.iter().map(|cells| line(cells, &widths)).collect()
}

fn line(cells: &[String], widths: &[usize]) -> String {
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
        assert_eq!(table_without(["NAME", "N"], &rows, &["NAME"]), "N\n1\n2\n");
    }
}
