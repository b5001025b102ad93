//! The traces: a span for each request that registers notifications, and one for each attempt, sent to a collector of
//! OpenTelemetry.
//!
//! A [`Tracer`] decides which spans are recorded. The caller decides about its own traces: its `traceparent` says whether they
//! are recorded. Of the others, the ratio of the settings is. An attempt has a span if its registration had one: the context
//! that is kept with a notification is that of the span of its registration, however long ago that was and on whichever
//! server.
//!
//! A span that has ended goes into a bounded queue and is never waited for. If the queue is full, the span is dropped and
//! counted. [`exporter`] sends what is in it.
//!
//! The times of spans are those of this machine's clock, since they are compared with the spans of other programs. A duration
//! is measured with monotonic time.

pub mod collector;
pub mod exporter;
mod otlp;
mod queue;
pub mod span;
mod tracer;

pub use tracer::Tracer;
