//! A Lua script and the commands that run it.

use super::script_text::{with_inlined_constants, without_unused};
use redis::{Arg, Cmd};
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

/// The scripts that were prepared in this process, by their texts in the source, so never more than those: every partition of
/// every schedule has the same ones. Without this, the contract's tests with several partitions take ten times as long.
static PREPARED: LazyLock<Mutex<HashMap<&'static str, Script>>> = LazyLock::new(Mutex::default);

/// A script: its text and the SHA-1 under which the server caches it.
#[derive(Clone)]
pub struct Script {
    text: Arc<str>,
    sha: Arc<str>,
}

impl Script {
    /// Prepares a script, with `common.lua`, `lanes.lua` and `lane_turns.lua` in front of it, without the functions there that
    /// it does not use, and with the constants in the places where they are used: making a function costs time at every call of
    /// a script, more for each name outside that it uses, all of them together as much as ten commands.
    pub fn with_common(text: &'static str) -> Self {
        let functions = concat!(
            include_str!("lua/common.lua"),
            "\n",
            include_str!("lua/lanes.lua"),
            "\n",
            include_str!("lua/lane_turns.lua")
        );
        let mut prepared = PREPARED.lock().unwrap_or_else(PoisonError::into_inner);
        let prepare = || {
            let script = format!("{}{text}", without_unused(functions, text));
            Self::new(&with_inlined_constants(&script))
        };
        prepared.entry(text).or_insert_with(prepare).clone()
    }

    /// Prepares a script.
    pub fn new(text: &str) -> Self {
        let sha = redis::Script::new(text).get_hash().into();
        Self {
            text: text.into(),
            sha,
        }
    }

    /// The start of a call that contains the script's text: for scripts that are called rarely, and servers that do not know it.
    pub fn eval(&self) -> Cmd {
        let mut command = redis::cmd("EVAL");
        command.arg(&*self.text);
        command
    }

    /// The start of a call; the caller adds keys and arguments.
    pub fn call(&self) -> Cmd {
        let mut command = redis::cmd("EVALSHA");
        command.arg(&*self.sha);
        command
    }

    /// The command that loads the script into the server, for [`Script::call`].
    pub fn load(&self) -> Cmd {
        let mut command = redis::cmd("SCRIPT");
        command.arg("LOAD").arg(&*self.text);
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
