//! The calls that merchants and operators receive, as webhooks of the description.

use super::alerts;
use super::trace_headers;
use crate::api::schema::{NAME, names, text};
use serde_json::{Value, json};
use utoipa::openapi::content::ContentBuilder;
use utoipa::openapi::header::HeaderBuilder;
use utoipa::openapi::path::{
    HttpMethod, OperationBuilder, Parameter, ParameterBuilder, ParameterIn, PathItem, Paths,
    PathsBuilder,
};
use utoipa::openapi::request_body::RequestBodyBuilder;
use utoipa::openapi::response::ResponseBuilder;
use utoipa::openapi::schema::{ObjectBuilder, SchemaType, Type};
use utoipa::openapi::{Required, SecurityRequirement};

const DESCRIPTION: &str = "A POST to the URL of the notification, with the body as it was registered, byte for byte, and the \
    headers of the registration. It is made again, on the ladder's times, until the answer is the one that the ack rule asks \
    for: with the rule `success`, a status 2xx and the body `success`. The same `Webhook-Id` can arrive more than once: keep \
    it, and do the work once.\n\n\
    The signature is that of Standard Webhooks 1.0.0. Sign `{Webhook-Id}.{Webhook-Timestamp}.{body}`, with the raw bytes of \
    the body, by HMAC-SHA256 with the bytes that the base64 after `whsec_` stands for; write the result in base64 behind \
    `v1,`; and compare it in constant time with each of the signatures in the header, which are separated by spaces. With a \
    public key (`whpk_...`), verify the ed25519 signatures behind `v1a,` instead. Refuse a timestamp that is more than five \
    minutes away from your clock. Only the id, the timestamp and the body are signed. An endpoint can give the three headers \
    other names.\n\n\
    Redirects are not followed.";

/// The webhooks.
pub(super) fn webhooks() -> Paths {
    let any = ObjectBuilder::new().schema_type(SchemaType::AnyValue);
    let body = ContentBuilder::new()
        .schema(Some(any))
        .example(Some(json!({ "order": 1001 })));
    let body = RequestBodyBuilder::new()
        .description(Some(
            "As it was registered, with its `Content-Type`; it may be empty, or bytes that are no text.",
        ))
        .content("*/*", body.build());
    let success = ContentBuilder::new()
        .schema(Some(names(&["success"])))
        .example(Some(Value::from("success")));
    let acknowledged = ResponseBuilder::new()
        .description(
            "Acknowledged, if the body is `success` (or what the ack rule of the notification asks for); nothing more is \
             sent. With another body, the call is made again.",
        )
        .content("text/plain", success.build());
    let number = ObjectBuilder::new().schema_type(Type::String);
    let retry_after = HeaderBuilder::new()
        .schema(Some(number))
        .description(Some(
            "With the ladder `standard-webhooks`, or if the endpoint says so: when to call again.",
        ))
        .build();
    let later = |words: &str| {
        let response = ResponseBuilder::new().description(words);
        response.header("Retry-After", retry_after.clone()).build()
    };
    let gone = ResponseBuilder::new().description(
        "With the ladder or the ack rule `standard-webhooks`, or if the endpoint says so: no more calls. Else a failed attempt.",
    );
    let other = ResponseBuilder::new().description("A failed attempt: the call is made again.");
    let operation = OperationBuilder::new()
        .operation_id(Some("receiveNotification"))
        .summary(Some("What a merchant receives"))
        .description(Some(DESCRIPTION))
        .securities(Some([] as [SecurityRequirement; 0]))
        .parameters(Some(headers()))
        .request_body(Some(body.build()))
        .response("200", acknowledged.build())
        .response("410", gone.build())
        .response("429", later("A failed attempt."))
        .response("503", later("A failed attempt."))
        .response("default", other.build());
    PathsBuilder::new()
        .path("notification", PathItem::new(HttpMethod::Post, operation))
        .path("alert", PathItem::new(HttpMethod::Post, alert()))
        .build()
}

/// The alert that an operator's endpoint receives.
fn alert() -> OperationBuilder {
    let body = ContentBuilder::new()
        .schema(Some(alerts::body()))
        .example(Some(alerts::example()));
    let body = RequestBodyBuilder::new()
        .required(Some(Required::True))
        .content("application/json", body.build());
    let acknowledged = ResponseBuilder::new().description(
        "Acknowledged, unless the endpoint has another ack rule; nothing more is sent.",
    );
    let other = ResponseBuilder::new().description("A failed attempt: the call is made again.");
    OperationBuilder::new()
        .operation_id(Some("receiveAlert"))
        .summary(Some("What an operator's endpoint receives"))
        .description(Some(alerts::DESCRIPTION))
        .securities(Some([] as [SecurityRequirement; 0]))
        .parameters(Some(headers()))
        .request_body(Some(body.build()))
        .response("2XX", acknowledged.build())
        .response("default", other.build())
}

fn headers() -> Vec<Parameter> {
    let integer = || {
        ObjectBuilder::new()
            .schema_type(Type::Integer)
            .minimum(Some(1))
    };
    let described = [
        (
            "Webhook-Id",
            text().pattern(Some("^msg_[0-9a-f]{32}$")),
            "Names the notification: the same in every call for it.",
            Value::from("msg_01a2044ff818758f83dfa9b233b867a6"),
        ),
        (
            "Webhook-Timestamp",
            integer(),
            "When this call was signed, in seconds since 1970.",
            Value::from(1_795_368_679),
        ),
        (
            "Webhook-Signature",
            text(),
            "One signature, or several, separated by spaces.",
            Value::from("v1,/5twMWs7rRq3Yt9R4e+9pOtifBlYXbkWOUaUdpsJ4+U="),
        ),
        (
            "Ringback-Topic",
            text().pattern(Some(NAME)),
            "The topic. It is not signed.",
            Value::from("payment.succeeded"),
        ),
        (
            "Ringback-Attempt",
            integer(),
            "1, 2, ... over all series. A call that is made again because its outcome was not recorded has the same number.",
            Value::from(1),
        ),
        (
            "User-Agent",
            text(),
            "That of the endpoint, or `Ringback/` and the version.",
            Value::from(concat!("Ringback/", env!("CARGO_PKG_VERSION"))),
        ),
    ];
    let headers = described.map(|(name, schema, words, example)| {
        ParameterBuilder::new()
            .name(name)
            .parameter_in(ParameterIn::Header)
            .required(Required::True)
            .schema(Some(schema))
            .description(Some(words))
            .example(Some(example))
            .build()
    });
    headers
        .into_iter()
        .chain(trace_headers::of_call())
        .collect()
}
