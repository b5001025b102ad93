//! CSV by RFC 4180: commas, lines that end with CR LF, and quotes around what needs them.
//!
//! Spreadsheets take a cell that begins with `=` or a similar sign for a formula, also within quotes. Ids may come from
//! merchants, so such a cell gets an apostrophe before it, and so does one that begins with an apostrophe. Whoever reads the
//! file by a program removes one apostrophe from the beginning of each cell that has one.

/// Adds a row.
pub fn write_row<'a>(out: &mut Vec<u8>, cells: impl IntoIterator<Item = &'a str>) {
    for (place, cell) in cells.into_iter().enumerate() {
        if place > 0 {
            out.push(b',');
        }
        write_cell(out, cell);
    }
    out.extend_from_slice(b"\r\n");
}

fn write_cell(out: &mut Vec<u8>, text: &str) {
    let apostrophe = if text.starts_with(is_read_as_formula) {
        "'"
    } else {
        ""
    };
    // A semicolon or a tab separates cells in some spreadsheets, and spaces at the ends are removed by some.
    let is_quoted = text.contains([',', '"', '\r', '\n', ';', '\t'])
        || text.starts_with(' ')
        || text.ends_with(' ');
    if !is_quoted {
        out.extend_from_slice(apostrophe.as_bytes());
        out.extend_from_slice(text.as_bytes());
        return;
    }
    out.push(b'"');
    out.extend_from_slice(apostrophe.as_bytes());
    for (place, part) in text.split('"').enumerate() {
        if place > 0 {
            out.extend_from_slice(b"\"\"");
        }
        out.extend_from_slice(part.as_bytes());
    }
    out.push(b'"');
}

/// Whether a spreadsheet takes a cell that begins with this character for a formula, or removes the character and then does;
/// or whether it is the apostrophe. The last four are the wide forms of the first four.
fn is_read_as_formula(first: char) -> bool {
    matches!(
        first,
        '=' | '+' | '-' | '@' | '\t' | '\r' | '\n' | '\'' | '＝' | '＋' | '－' | '＠'
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn row(cells: &[&str]) -> String {
        let mut out = Vec::new();
        write_row(&mut out, cells.iter().copied());
        String::from_utf8(out).expect("UTF-8")
    }

    #[test]
    fn what_needs_quotes_gets_them() {
        fn check(cells: &[&str], expected: &str) {
            assert_eq!(row(cells), expected);
        }
        check(&["a", "", "b c"], "a,,b c\r\n");
        check(&["a,b", "c\"d", "\""], "\"a,b\",\"c\"\"d\",\"\"\"\"\r\n");
        check(&["a\nb", "c\r"], "\"a\nb\",\"c\r\"\r\n");
        check(&[" a", "b ", "c;d"], "\" a\",\"b \",\"c;d\"\r\n");
        check(&["失败"], "失败\r\n");
    }

    #[test]
    fn nothing_is_a_formula() {
        fn check(cell: &str, expected: &str) {
            assert_eq!(row(&[cell]), format!("{expected}\r\n"));
        }
        check("=1+1", "'=1+1");
        check("+1", "'+1");
        check("-1", "'-1");
        check("@SUM(A1)", "'@SUM(A1)");
        check("=a,b", "\"'=a,b\"");
        check("\t=1", "\"'\t=1\"");
        check("'a", "''a");
        check("＝1", "'＝1");
        check("a=1", "a=1");
    }

    /// Reads one row, as RFC 4180 says it, and removes the apostrophes.
    fn read(text: &str) -> Vec<String> {
        let mut cells = vec![String::new()];
        let mut letters = text
            .strip_suffix("\r\n")
            .expect("a line")
            .chars()
            .peekable();
        let mut is_quoted = false;
        while let Some(letter) = letters.next() {
            let cell = cells.last_mut().expect("a cell");
            match letter {
                '"' if !is_quoted => is_quoted = true,
                '"' if letters.peek() == Some(&'"') => {
                    letters.next();
                    cell.push('"');
                }
                '"' => is_quoted = false,
                ',' if !is_quoted => cells.push(String::new()),
                letter => cell.push(letter),
            }
        }
        let bare = |cell: String| cell.strip_prefix('\'').map_or(cell.clone(), str::to_owned);
        cells.into_iter().map(bare).collect()
    }

    proptest! {
        #[test]
        fn every_row_is_read_back(cells in prop::collection::vec("[ -~\t\r\n失＝]{0,8}", 1..6)) {
            let cells: Vec<&str> = cells.iter().map(String::as_str).collect();
            prop_assert_eq!(read(&row(&cells)), cells);
        }
    }
}
