//! The headers of W3C Trace Context, of a registration and of the call that follows from it.

use crate::api::request_span::{TRACEPARENT, TRACESTATE};
use serde_json::Value;
use utoipa::openapi::Required;
use utoipa::openapi::path::{Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::schema::{ObjectBuilder, Type};

const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const STATE: &str = "rojo=00f067aa0ba902b7";

/// Those of a request that registers.
pub(super) fn of_request() -> Vec<Parameter> {
    of(
        "The trace that the registration belongs to, by W3C Trace Context. It is kept, sent to the receiver with each attempt, \
         and no part of the content. A value that the standard does not allow is ignored.",
        "What tracing systems keep with it. Kept and sent likewise, up to 512 bytes.",
    )
}

/// Those of a call to a receiver.
pub(super) fn of_call() -> Vec<Parameter> {
    of(
        "The trace that the notification belongs to, by W3C Trace Context, if it was registered with one or the server records \
         traces. It is not signed.",
        "What tracing systems keep with it.",
    )
}

// Any text is allowed, since what is wrong is ignored.
fn of(parent: &str, state: &str) -> Vec<Parameter> {
    let described = [(TRACEPARENT, parent, PARENT), (TRACESTATE, state, STATE)];
    let parameters = described.map(|(name, words, example)| {
        ParameterBuilder::new()
            .name(name)
            .parameter_in(ParameterIn::Header)
            .required(Required::False)
            .schema(Some(ObjectBuilder::new().schema_type(Type::String)))
            .description(Some(words))
            .example(Some(Value::from(example)))
            .build()
    });
    parameters.into()
}
