//! More than one Redis: Sentinel and Cluster, with primaries that die, hang and come back, and slots that move.

mod finding;
mod servers;
