//! HTTP/2 to receivers (RFC 9113): calls to the same receiver share connections.
//!
//! * [`caller`] makes one call: it gets a place on a connection, opens one if there is none, and sends a request again
//!   only if the protocol says that it was not processed.
//! * `pool` knows the open connections of every receiver, and how many calls each has in flight.
//! * `connection` is one connection and the task that runs it; `exchange` is one call over it.
//! * `frames` and `watched_stream` observe the frames of a connection on their way between TLS and the library. The
//!   library does not tell which requests were written, nor up to which call a receiver that leaves has processed what
//!   it was sent, and both decide whether a request may be sent again. Nor does it tell how much of bodies the receiver
//!   takes on the whole connection (`send_window`), which decides whether it gets calls.

pub mod caller;
pub mod connection;
pub mod connection_end;
mod exchange;
mod frames;
mod origin;
mod pool;
mod send_window;
mod state;
mod task;
mod watched_stream;
