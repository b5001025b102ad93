//! One request in the description: its method and path, what it takes, and what it may be answered with.

use super::problems::ProblemResponses;
use crate::api::problem::ProblemKind;
use crate::api::query::path_parameter;
use crate::api::rights::needed;
use crate::api::schema::{Part, reference, with_parts};
use crate::domain::role::{Permission, Role};
use http::Method;
use serde_json::Value;
use utoipa::ToSchema;
use utoipa::openapi::content::ContentBuilder;
use utoipa::openapi::header::HeaderBuilder;
use utoipa::openapi::path::{
    HttpMethod, Operation, OperationBuilder, Parameter, ParameterBuilder, ParameterIn,
};
use utoipa::openapi::request_body::{RequestBody, RequestBodyBuilder};
use utoipa::openapi::response::{Response, ResponseBuilder};
use utoipa::openapi::schema::{ObjectBuilder, OneOfBuilder, Type};
use utoipa::openapi::{Required, SecurityRequirement};

/// A request.
pub(super) struct Route {
    pub(super) method: HttpMethod,
    pub(super) path: &'static str,
    id: &'static str,
    tag: &'static str,
    summary: &'static str,
    description: String,
    /// Of its query, and headers.
    query: Vec<Parameter>,
    body: Option<RequestBody>,
    answers: Vec<(u16, Response)>,
    problems: Vec<ProblemKind>,
    parts: Vec<(String, Part)>,
}

/// What every request under `/v1` may be answered with.
const OF_ALL: [ProblemKind; 8] = [
    ProblemKind::Parameters,
    ProblemKind::Unauthorized,
    ProblemKind::Forbidden,
    ProblemKind::CrossSite,
    ProblemKind::TooManyRequests,
    ProblemKind::Internal,
    ProblemKind::Busy,
    ProblemKind::Unavailable,
];
/// What a request with a body may be answered with beside that.
const OF_BODIES: [ProblemKind; 4] = [
    ProblemKind::Malformed,
    ProblemKind::Timeout,
    ProblemKind::TooLarge,
    ProblemKind::MediaType,
];

/// A header of an answer, and what it says.
pub(super) type AnswerHeader = (&'static str, &'static str);
/// Where the new thing is.
pub(super) const LOCATION: AnswerHeader = ("Location", "Its path.");
/// What must not be kept by caches.
pub(super) const NO_STORE: AnswerHeader = ("Cache-Control", "`no-store`.");

impl Route {
    pub(super) fn new(method: HttpMethod, path: &'static str, id: &'static str) -> Self {
        Self {
            method,
            path,
            id,
            tag: "",
            summary: "",
            description: String::new(),
            query: Vec::new(),
            body: None,
            answers: Vec::new(),
            problems: Vec::new(),
            parts: Vec::new(),
        }
    }

    /// What it does, in one line and in more.
    pub(super) fn says(
        mut self,
        tag: &'static str,
        summary: &'static str,
        description: &str,
    ) -> Self {
        self.tag = tag;
        self.summary = summary;
        self.description = description.to_string();
        self
    }

    /// The parameters of its query.
    pub(super) fn query(mut self, parameters: Vec<Parameter>) -> Self {
        self.query = parameters;
        self
    }

    /// The headers that it takes beside those of all requests.
    pub(super) fn headers(mut self, mut parameters: Vec<Parameter>) -> Self {
        self.query.append(&mut parameters);
        self
    }

    /// A body that it has to have.
    pub(super) fn body<T: ToSchema>(self, example: Value) -> Self {
        self.with_body::<T>("application/json", Required::True, example)
    }

    /// A merge patch that it has to have.
    pub(super) fn patch<T: ToSchema>(self, example: Value) -> Self {
        self.with_body::<T>("application/merge-patch+json", Required::True, example)
    }

    /// A body that may be left out.
    pub(super) fn optional_body<T: ToSchema>(self, example: Value) -> Self {
        self.with_body::<T>("application/json", Required::False, example)
    }

    fn with_body<T: ToSchema>(mut self, kind: &str, required: Required, example: Value) -> Self {
        self.parts.extend(with_parts::<T>());
        let content = || {
            let content = ContentBuilder::new().schema(Some(reference::<T>()));
            content.example(Some(example.clone())).build()
        };
        let mut body = RequestBodyBuilder::new()
            .required(Some(required))
            .content("application/json", content());
        if kind != "application/json" {
            body = body.content(kind, content());
        }
        self.body = Some(body.build());
        self
    }

    /// An answer with a document.
    pub(super) fn answer<T: ToSchema>(
        mut self,
        status: u16,
        description: &str,
        headers: &[AnswerHeader],
        example: Option<Value>,
    ) -> Self {
        self.parts.extend(with_parts::<T>());
        let content = ContentBuilder::new().schema(Some(reference::<T>()));
        let content = content.example(example).build();
        let response = ResponseBuilder::new()
            .description(description)
            .content("application/json", content);
        self.answered(status, response, headers)
    }

    /// An answer with one of two documents.
    pub(super) fn answer_either<One: ToSchema, Other: ToSchema>(
        mut self,
        status: u16,
        description: &str,
    ) -> Self {
        self.parts.extend(with_parts::<One>());
        self.parts.extend(with_parts::<Other>());
        let either = OneOfBuilder::new()
            .item(reference::<One>())
            .item(reference::<Other>());
        let content = ContentBuilder::new().schema(Some(either)).build();
        let response = ResponseBuilder::new()
            .description(description)
            .content("application/json", content);
        self.answered(status, response, &[])
    }

    /// An answer without a document.
    pub(super) fn answer_empty(self, status: u16, description: &str) -> Self {
        self.answered(status, ResponseBuilder::new().description(description), &[])
    }

    /// An answer of another form.
    pub(super) fn answered(
        mut self,
        status: u16,
        mut response: ResponseBuilder,
        headers: &[AnswerHeader],
    ) -> Self {
        for (name, words) in headers {
            let text = ObjectBuilder::new().schema_type(Type::String);
            let header = HeaderBuilder::new()
                .schema(Some(text))
                .description(Some(*words));
            response = response.header(*name, header.build());
        }
        self.answers.push((status, response.build()));
        self
    }

    /// The problems that it may be answered with, beside those of all requests.
    pub(super) fn problems(mut self, kinds: &[ProblemKind]) -> Self {
        self.problems.extend(kinds);
        self
    }

    /// Schemas that it refers to.
    pub(super) fn parts<T: ToSchema>(mut self) -> Self {
        self.parts.extend(with_parts::<T>());
        self
    }

    fn method(&self) -> Method {
        match self.method {
            HttpMethod::Get => Method::GET,
            HttpMethod::Post => Method::POST,
            HttpMethod::Put => Method::PUT,
            HttpMethod::Delete => Method::DELETE,
            HttpMethod::Patch => Method::PATCH,
            _ => Method::OPTIONS,
        }
    }

    /// The operation, and the schemas that it refers to.
    pub(super) fn operation(
        mut self,
        responses: &mut ProblemResponses,
    ) -> (Operation, Vec<(String, Part)>) {
        let is_open = !self.path.starts_with("/v1/");
        let method = self.method();
        let mut operation = OperationBuilder::new()
            .operation_id(Some(self.id))
            .tag(self.tag)
            .summary(Some(self.summary));
        if is_open {
            operation = operation.securities(Some([] as [SecurityRequirement; 0]));
        } else {
            self.problems.extend(OF_ALL);
            let roles = roles(needed(&method, self.path));
            let words = std::mem::take(&mut self.description);
            self.description = format!("{words}\n\nRoles: {roles}.").trim().to_string();
        }
        let mut parameters: Vec<Parameter> = path_names(self.path)
            .map(|name| path_parameter(self.path, name))
            .collect();
        parameters.append(&mut self.query);
        if !is_open && method != Method::GET {
            parameters.push(actor());
            self.problems.push(ProblemKind::Fields);
        }
        if self.body.is_some() {
            self.problems.extend(OF_BODIES);
        }
        operation = operation
            .description(Some(self.description))
            .parameters(Some(parameters))
            .request_body(self.body);
        for (status, response) in self.answers {
            operation = operation.response(status.to_string(), response);
        }
        for (status, reference) in responses.answers(&self.problems) {
            operation = operation.response(status, reference);
        }
        (operation.build(), self.parts)
    }
}

/// The names between braces.
fn path_names(path: &'static str) -> impl Iterator<Item = &'static str> {
    path.split('{')
        .skip(1)
        .filter_map(|rest| rest.split('}').next())
}

fn roles(permission: Permission) -> String {
    let roles = Role::ALL
        .into_iter()
        .filter(|role| role.permits(permission));
    let roles: Vec<String> = roles.map(|role| format!("`{role}`")).collect();
    roles.join(", ")
}

fn actor() -> Parameter {
    let name = ObjectBuilder::new().schema_type(Type::String).pattern(Some(
        "^(?!(dispatcher|maintenance)$)[!-~]([ -~]{0,62}[!-~])?$",
    ));
    ParameterBuilder::new()
        .name(crate::api::auth::ACTOR_HEADER)
        .parameter_in(ParameterIn::Header)
        .required(Required::False)
        .schema(Some(name))
        .description(Some(
            "Who asks, for the history: 1 to 64 printable ASCII characters, and not `dispatcher` or `maintenance`.",
        ))
        .build()
}
