//! Ports of the loopback that stay ours while nobody listens on them.
//!
//! A server that is killed and started again needs its port in between, and a node of a cluster needs two whose
//! numbers belong together. The ports lie below those that the system gives to outgoing connections.

use super::chance::{Chance, fresh_seed};
use tokio::net::TcpSocket;

/// From here on ports are taken. Below are those of well-known services.
const FIRST: u16 = 10_000;
/// Linux gives ports from 32,768 on to outgoing connections; twice [`BUS`] stays below that.
const PORTS: u16 = 12_000;
/// How far the port of the cluster bus is from the port for clients. Redis has no other rule before version 7.
pub const BUS: u16 = 10_000;
/// Ports that are tried. Other processes may have many.
const TRIES: usize = 1_000;

/// A port that no other process can bind, unless it allows others to share the port as well.
pub struct HeldPort {
    /// Its number.
    pub number: u16,
    _holder: TcpSocket,
}

impl HeldPort {
    /// A port that was free.
    pub fn any() -> Self {
        any(Self::of)
    }

    /// A port for clients and the port of its cluster bus, both of which were free.
    pub fn pair() -> [Self; 2] {
        any(|number| Some([Self::of(number)?, Self::of(number + BUS)?]))
    }

    fn of(number: u16) -> Option<Self> {
        let address = ([127, 0, 0, 1], number).into();
        // Without the permission to share, this fails if anybody has the port, listening or not.
        let alone = TcpSocket::new_v4().expect("a socket");
        alone.bind(address).ok()?;
        drop(alone);
        let holder = TcpSocket::new_v4().expect("a socket");
        holder.set_reuseaddr(true).expect("to be shared");
        holder.bind(address).ok()?;
        Some(Self {
            number,
            _holder: holder,
        })
    }
}

fn any<Ports>(hold: impl Fn(u16) -> Option<Ports>) -> Ports {
    let mut chance = Chance::of_one(fresh_seed(), 0);
    let number = |_| FIRST + u16::try_from(chance.below(PORTS.into())).expect("below it");
    let held = (0..TRIES).map(number).find_map(hold);
    held.unwrap_or_else(|| panic!("no free port in {TRIES} tries"))
}
