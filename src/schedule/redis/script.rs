//! A Lua script and the commands that run it.

use super::script_text::{with_inlined_constants, without_unused};
use redis::{Arg, Cmd};

/// A script: its text and the SHA-1 under which the server caches it.
pub struct Script {
    text: String,
    sha: String,
}

impl Script {
    /// Prepares a script, with `common.lua` and `lanes.lua` in front of it, without the functions there that it does
    /// not use, and with the constants in the places where they are used: making a function costs time at every call of a
    /// script, more for each name outside that it uses, all of them together as much as ten commands.
    pub fn with_common(text: &str) -> Self {
        let functions = concat!(
            include_str!("lua/common.lua"),
            "\n",
            include_str!("lua/lanes.lua")
        );
        let script = format!("{}{text}", without_unused(functions, text));
        Self::new(&with_inlined_constants(&script))
    }

    /// Prepares a script.
    pub fn new(text: &str) -> Self {
        let sha = redis::Script::new(text).get_hash().to_string();
        Self {
            text: text.to_string(),
            sha,
        }
    }

    /// The start of a call that contains the script's text: for scripts that are called rarely, and servers that do not know it.
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

    /// The same command with the script's text in place of its SHA-1. It also loads the script into the server.
    pub fn with_text(&self, command: &Cmd) -> Cmd {
        let mut with_text = self.eval();
        for argument in command.args_iter().skip(2) {
            match argument {
                Arg::Simple(bytes) => with_text.arg(bytes),
                _ => with_text.arg(0),
            };
        }
        with_text
    }
}
