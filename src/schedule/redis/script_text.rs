//! Lua text made smaller before it is loaded: Redis runs all of a script at every call, also what defines its functions
//! and constants.

use std::collections::{BTreeSet, HashMap};

/// `functions` without the top-level functions that neither `text` nor the rest names, directly or through another
/// function. Such a function begins with a line `local function NAME(` and ends with the next line `end`.
pub(super) fn without_unused(functions: &str, text: &str) -> String {
    let blocks = blocks_of(functions);
    let bodies: HashMap<&str, &str> = blocks
        .iter()
        .filter_map(|block| Some((block.function?, block.text)))
        .collect();
    let mut used = BTreeSet::new();
    let mut to_read = vec![text];
    to_read.extend(
        (blocks.iter())
            .filter(|block| block.function.is_none())
            .map(|block| block.text),
    );
    while let Some(code) = to_read.pop() {
        for name in names_in(code) {
            if let Some(body) = bodies.get(name)
                && used.insert(name)
            {
                to_read.push(body);
            }
        }
    }
    (blocks.iter())
        .filter(|block| block.function.is_none_or(|name| used.contains(name)))
        .map(|block| block.text)
        .collect()
}

/// A part of a script: a top-level function, or a line outside of all.
struct Block<'a> {
    function: Option<&'a str>,
    text: &'a str,
}

fn blocks_of(script: &str) -> Vec<Block<'_>> {
    let mut blocks = Vec::new();
    let mut rest = script;
    while !rest.is_empty() {
        let function = rest
            .strip_prefix("local function ")
            .and_then(|after| after.split_once('('))
            .map(|(name, _)| name);
        let end = if function.is_some() { "\nend\n" } else { "\n" };
        let length = rest.find(end).map_or(rest.len(), |at| at + end.len());
        let (text, after) = rest.split_at(length);
        blocks.push(Block { function, text });
        rest = after;
    }
    blocks
}

/// The names in a script, except those in comments.
fn names_in(script: &str) -> impl Iterator<Item = &str> {
    script
        .lines()
        .map(|line| line.split_once("--").map_or(line, |(code, _)| code))
        .flat_map(|code| code.split(|c: char| !c.is_ascii_alphanumeric() && c != '_'))
}

/// The script without the lines at the start of which constants are defined, each with its value where it is used. A constant
/// is a local in capitals whose value is a number, a text without quotes in it, or is calculated from numbers. Comments are
/// left out.
pub(super) fn with_inlined_constants(script: &str) -> String {
    let mut constants: HashMap<&str, String> = HashMap::new();
    let mut inlined = String::with_capacity(script.len());
    for line in script.lines() {
        let code = without_comment(line);
        if let Some((names, values)) = definition(code) {
            let values: Vec<String> = values
                .split(',')
                .map(|value| with_values(value.trim(), &constants))
                .collect();
            if names.len() == values.len() && values.iter().all(|value| is_constant(value)) {
                let values = values.into_iter().map(|value| match value.as_bytes() {
                    [b'\'', ..] => value,
                    number if number.iter().all(u8::is_ascii_digit) => value,
                    _ => format!("({value})"),
                });
                constants.extend(names.into_iter().zip(values));
                continue;
            }
        }
        inlined.push_str(&with_values(code, &constants));
        inlined.push('\n');
    }
    inlined
}

/// The names and the values, if this line defines locals in capitals.
fn definition(line: &str) -> Option<(Vec<&str>, &str)> {
    let (names, values) = line.strip_prefix("local ")?.split_once(" = ")?;
    let names: Vec<&str> = names.split(',').map(str::trim).collect();
    let is_capital = |c: u8| c.is_ascii_uppercase() || c.is_ascii_digit() || c == b'_';
    let are_constants = names
        .iter()
        .all(|name| !name.is_empty() && name.bytes().all(is_capital));
    are_constants.then_some((names, values))
}

fn is_constant(value: &str) -> bool {
    let is_number = value.bytes().any(|c| c.is_ascii_digit())
        && (value.bytes()).all(|c| c.is_ascii_digit() || b" +-*/()".contains(&c));
    let text = value
        .strip_prefix('\'')
        .and_then(|rest| rest.strip_suffix('\''));
    is_number || text.is_some_and(|text| !text.contains(['\'', '\\']))
}

fn without_comment(line: &str) -> &str {
    let mut quote = None;
    let mut characters = line.char_indices().peekable();
    while let Some((at, c)) = characters.next() {
        match quote {
            Some(_) if c == '\\' => {
                characters.next();
            }
            Some(open) if c == open => quote = None,
            Some(_) => {}
            None if c == '\'' || c == '"' => quote = Some(c),
            None if line[at..].starts_with("--") => return line[..at].trim_end(),
            None => {}
        }
    }
    line
}

/// The code with the values of the constants that it names, except in texts.
fn with_values(code: &str, constants: &HashMap<&str, String>) -> String {
    let is_in_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut with_values = String::with_capacity(code.len());
    let mut rest = code;
    while let Some(first) = rest.chars().next() {
        let length = if is_in_name(first) {
            rest.find(|c| !is_in_name(c)).unwrap_or(rest.len())
        } else if first == '\'' || first == '"' {
            end_of_text(rest, first)
        } else {
            first.len_utf8()
        };
        let (word, after) = rest.split_at(length);
        with_values.push_str(constants.get(word).map_or(word, String::as_str));
        rest = after;
    }
    with_values
}

/// The length of the text that begins this code, quotes included.
fn end_of_text(code: &str, quote: char) -> usize {
    let mut is_escaped = false;
    for (at, c) in code.char_indices().skip(1) {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            _ if c == quote => return at + c.len_utf8(),
            _ => {}
        }
    }
    code.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FUNCTIONS: &str = "\
local A = 1
-- Names unused in a comment.
local function low()
  if A then
    return 1
  end
end

local function middle(n)
  return low() + n
end
local function unused()
  return middle(A)
end
local B = A
";

    #[test]
    fn a_function_that_is_used_through_another_is_kept() {
        let expected = FUNCTIONS.replace("local function unused()\n  return middle(A)\nend\n", "");
        assert_eq!(without_unused(FUNCTIONS, "return middle(2)"), expected);
    }

    #[test]
    fn a_function_that_only_a_comment_names_is_left_out() {
        let script = without_unused(FUNCTIONS, "return A -- not middle(2)");
        assert_eq!(
            script,
            "local A = 1\n-- Names unused in a comment.\n\nlocal B = A\n"
        );
    }

    #[test]
    fn a_function_that_a_statement_outside_uses_is_kept() {
        let functions = FUNCTIONS.replace("local B = A", "local B = low()");
        assert!(without_unused(&functions, "return 1").contains("local function low()"));
    }

    #[test]
    fn constants_stand_where_they_are_used() {
        fn check(script: &str, expected: &str) {
            assert_eq!(with_inlined_constants(script), expected, "{script}");
        }
        check(
            "local A, B_1 = 1, -2\nreturn A + B_1 -- A\n",
            "return 1 + (-2)\n",
        );
        check(
            "local A = 2\nlocal B = A - 1\nreturn x[B]",
            "return x[(2 - 1)]\n",
        );
        check(
            "local A = '>i8'\nreturn f(A, 'A', \"A\")",
            "return f('>i8', 'A', \"A\")\n",
        );
        check(
            "local A = 1\nreturn 'it\\'s A' .. A .. BA",
            "return 'it\\'s A' .. 1 .. BA\n",
        );
        check(
            "local A = ARGV[1]\nreturn A",
            "local A = ARGV[1]\nreturn A\n",
        );
        check("local a = 1\nreturn a", "local a = 1\nreturn a\n");
        check(
            "local A = '(' .. f(1)\nreturn A",
            "local A = '(' .. f(1)\nreturn A\n",
        );
        check("return '--' -- a comment\n  -- another", "return '--'\n\n");
    }
}
