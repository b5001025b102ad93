//! Tables. On a terminal, a table is at most as wide as the terminal: cells that are too long are cut. In a file or a pipe,
//! nothing is cut.

use super::terminal::{Colours, clean, columns, width};

/// The gap between two columns.
const GAP: usize = 2;
/// No column is made narrower than this, so that something of each is readable. On a very narrow terminal, the terminal
/// breaks the lines.
const NARROWEST: usize = 8;

/// The headings of columns that are cut last, because they are typed into the next command.
const KEYS: [&str; 3] = ["topic", "id", "name"];

/// A table with a heading. Each column is as wide as its widest cell. If that is too wide for the terminal, the widest
/// columns are cut. The cells of the rows are escaped with [`clean`].
pub fn table(colours: Colours, heading: &[&str], rows: &[Vec<String>]) -> String {
    let rows: Vec<Vec<String>> = rows
        .iter()
        .map(|row| row.iter().map(|cell| clean(cell)).collect())
        .collect();
    let widest = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        let cells = cells.map(|cell| columns(cell)).max();
        cells.unwrap_or(0).max(columns(heading[column]))
    };
    let mut widths: Vec<usize> = (0..heading.len()).map(widest).collect();
    if let Some(most) = colours.columns() {
        fit(heading, &mut widths, most);
    }
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let mut line = String::new();
        for (cell, width) in cells.zip(&widths) {
            let cell = cut(cell, *width);
            line.push_str(&cell);
            line.push_str(&" ".repeat(width + GAP - columns(&cell)));
        }
        line.trim_end().to_string()
    };
    let mut text = colours.faint(&line(&mut heading.iter().copied()));
    text.push('\n');
    for row in &rows {
        text.push_str(&line(&mut row.iter().map(String::as_str)));
        text.push('\n');
    }
    text
}

/// Makes columns narrower, the widest first, until the table has at most `most` columns of the terminal. Those of
/// [`KEYS`] are made narrower only if that of the others is not enough.
fn fit(heading: &[&str], widths: &mut [usize], most: usize) {
    let room = most.saturating_sub(GAP * widths.len().saturating_sub(1));
    for are_keys_cut in [false, true] {
        let may_be_cut = |column: usize| are_keys_cut || !KEYS.contains(&heading[column]);
        while let Some(less) = next_cut(widths, &may_be_cut, room) {
            for column in less.columns {
                widths[column] -= less.by;
            }
        }
    }
}

/// The columns that are made narrower next, and by how much.
struct NextCut {
    columns: Vec<usize>,
    by: usize,
}

/// Makes the widest columns as narrow as the next, or as narrow as is enough. `None` if nothing is to be cut any more.
fn next_cut(widths: &[usize], may_be_cut: &dyn Fn(usize) -> bool, room: usize) -> Option<NextCut> {
    let surplus = widths.iter().sum::<usize>().checked_sub(room)?;
    let candidates = || (widths.iter().enumerate()).filter(|(column, _)| may_be_cut(*column));
    let widest = candidates().map(|(_, width)| *width).max()?;
    let columns: Vec<usize> = candidates()
        .filter(|(_, width)| **width == widest)
        .map(|(column, _)| column)
        .collect();
    let next = candidates().map(|(_, width)| *width);
    let next = next.filter(|width| *width < widest).max();
    let floor = next.unwrap_or(0).max(NARROWEST);
    let by = widest.saturating_sub(floor);
    let by = by.min(surplus.div_ceil(columns.len()));
    (by > 0).then_some(NextCut { columns, by })
}

/// The text, or its beginning and `…` if it takes more than `most` columns.
fn cut(text: &str, most: usize) -> String {
    if columns(text) <= most {
        return text.to_string();
    }
    let mut left = most.saturating_sub(1);
    let mut kept = String::new();
    for character in text.chars() {
        let Some(rest) = left.checked_sub(width(character)) else {
            break;
        };
        left = rest;
        kept.push(character);
    }
    kept.push('…');
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(rows: &[&[&str]]) -> Vec<Vec<String>> {
        let owned = |cell: &&str| (*cell).to_string();
        rows.iter()
            .map(|row| row.iter().map(owned).collect())
            .collect()
    }

    #[test]
    fn columns_line_up() {
        let rows = rows(&[&["1", "\n"], &["222", "b"], &["付款", "é"]]);
        let text = table(Colours::never(), &["#", "answer"], &rows);
        assert_eq!(text, "#     answer\n1     \\n\n222   b\n付款  é\n");
    }

    #[test]
    fn a_table_is_as_wide_as_the_terminal_and_is_cut_nowhere_else() {
        let long = "https://shop.example/notify?order=1001";
        let rows = rows(&[
            &["dead", long, "付款通知没有送达因为商户关闭了"],
            &["x", "y", "z"],
        ]);
        let heading = ["state", "url", "reason"];
        let check = |most: Option<usize>, expected: &str| {
            let colours = most.map_or(Colours::never(), Colours::on_terminal_of);
            let text = table(colours, &heading, &rows);
            assert_eq!(text.lines().nth(1), Some(expected), "{most:?}");
            let widest = text.lines().map(columns).max().unwrap_or(0);
            assert!(most.is_none_or(|most| widest <= most), "{most:?}: {text}");
        };
        let whole = "dead   https://shop.example/notify?order=1001  付款通知没有送达因为商户关闭了";
        check(None, whole);
        check(Some(77), whole);
        check(
            Some(76),
            "dead   https://shop.example/notify?order=10…  付款通知没有送达因为商户关闭了",
        );
        check(Some(49), "dead   https://shop.exampl…  付款通知没有送达因…");
        check(Some(25), "dead   https:/…  付款通…");
    }

    #[test]
    fn the_widest_columns_are_cut_first_and_keys_last() {
        fn check(heading: &[&str], widths: &[usize], most: usize, expected: &[usize]) {
            let mut fitted = widths.to_vec();
            fit(heading, &mut fitted, most);
            assert_eq!(fitted, expected, "{widths:?} in {most}");
        }
        let three = ["a", "b", "c"];
        check(&three, &[5, 20, 30], 59, &[5, 20, 30]);
        check(&three, &[5, 20, 30], 58, &[5, 20, 29]);
        check(&three, &[5, 20, 30], 49, &[5, 20, 20]);
        check(&three, &[5, 20, 30], 48, &[5, 19, 19]);
        check(&three, &[5, 20, 30], 10, &[5, 8, 8]);
        let keys = ["state", "id", "reason"];
        check(&keys, &[5, 40, 30], 60, &[5, 40, 11]);
        check(&keys, &[5, 40, 30], 56, &[5, 39, 8]);
        check(&keys, &[5, 40, 30], 10, &[5, 8, 8]);
        check(&["a", "b"], &[8, 8], 4, &[8, 8]);
        check(&["a"], &[9], 9, &[9]);
        check(&["a"], &[9], 1, &[8]);
        check(&[], &[], 0, &[]);
    }

    #[test]
    fn a_wide_character_is_not_cut_in_half() {
        fn check(text: &str, most: usize, shown: &str) {
            assert_eq!(cut(text, most), shown, "{text} in {most}");
        }
        check("success", 7, "success");
        check("success!", 7, "succes…");
        check("失败了", 6, "失败了");
        check("失败了", 5, "失败…");
        check("失败了", 4, "失…");
    }
}
