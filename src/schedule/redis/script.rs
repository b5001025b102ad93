//! A Lua script and the commands that run it.

use redis::Cmd;
use std::collections::{BTreeSet, HashMap};

/// A script: its text and the SHA-1 under which the server caches it.
pub struct Script {
    text: String,
    sha: String,
}

impl Script {
    /// Prepares a script, with `common.lua` and `lanes.lua` in front of it, without the functions there that it does
    /// not use: making a function costs time at every call of a script, all of them together as much as ten
    /// commands.
    pub fn with_common(text: &str) -> Self {
        let functions = concat!(
            include_str!("lua/common.lua"),
            "\n",
            include_str!("lua/lanes.lua")
        );
        Self::new(&format!("{}{text}", without_unused(functions, text)))
    }

    /// Prepares a script.
    pub fn new(text: &str) -> Self {
        let sha = redis::Script::new(text).get_hash().to_string();
        Self {
            text: text.to_string(),
            sha,
        }
    }

    /// The start of a call that contains the script's text: for scripts that are called rarely.
    pub fn eval(&self) -> Cmd {
        let mut command = redis::cmd("EVAL");
        command.arg(&self.text);
        command
    }

    /// The start of a call; the caller adds keys and arguments.
    pub fn call(&self) -> Cmd {
        let mut command = redis::cmd("EVALSHA");
        command.arg(&self.sha);
        command
    }

    /// The command that loads the script into the server, for [`Script::call`].
    pub fn load(&self) -> Cmd {
        let mut command = redis::cmd("SCRIPT");
        command.arg("LOAD").arg(&self.text);
        command
    }
}

/// `functions` without the top-level functions that neither `text` nor the rest names, directly or through another
/// function. Such a function begins with a line `local function NAME(` and ends with the next line `end`.
fn without_unused(functions: &str, text: &str) -> String {
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
}
