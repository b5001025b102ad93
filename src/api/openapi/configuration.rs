//! The requests about endpoints, signing keys, API keys and the audit log.

use super::examples;
use super::route::{LOCATION, NO_STORE, Route};
use crate::api::api_keys::{ApiKeyToMakeDocument, ApiKeysView, ListedApiKeyView, MadeApiKeyView};
use crate::api::attempt_view::AttemptView;
use crate::api::audit_log::AuditLogView;
use crate::api::default_keys::{AddedDefaultKeyView, DefaultKeysView, ListedKeyView};
use crate::api::endpoint_document::{EndpointDocument, EndpointPatch};
use crate::api::endpoint_view::EndpointView;
use crate::api::endpoints::EndpointListView;
use crate::api::key_document::{AddedKeyView, KeyToAddDocument, KeyView};
use crate::api::problem::ProblemKind::{
    self, ApiKey, EndpointInUse, MissingApiKey, MissingEndpoint, MissingKey, NoJournal, SigningKey,
    TooManyEndpoints,
};
use crate::api::query::{audit_parameters, endpoints_parameters};
use crate::api::schema::{GonePolicyName, NoFields, RoleName};
use utoipa::openapi::path::HttpMethod::{Delete, Get, Patch, Post, Put};

const ENDPOINTS: &str = "endpoints";
const DEFAULT_KEYS: &str = "default keys";
const ACCESS: &str = "access";

/// All of them.
pub(super) fn routes() -> Vec<Route> {
    let mut routes = endpoints();
    routes.extend(keys_of_endpoints());
    routes.extend(default_keys());
    routes.extend(access());
    routes
}

fn endpoints() -> Vec<Route> {
    let one = "/v1/endpoints/{name}";
    vec![
        Route::new(Get, "/v1/endpoints", "listEndpoints")
            .says(
                ENDPOINTS,
                "Lists endpoints, in the order of their names",
                "",
            )
            .query(endpoints_parameters())
            .answer::<EndpointListView<'_>>(200, "A page.", &[], None),
        Route::new(Get, one, "getEndpoint")
            .says(ENDPOINTS, "Looks an endpoint up", "")
            .answer::<EndpointView<'_>>(200, "The endpoint.", &[], Some(examples::endpoint()))
            .problems(&[MissingEndpoint]),
        Route::new(Put, one, "putEndpoint")
            .says(
                ENDPOINTS,
                "Makes an endpoint, or replaces it as a whole",
                "On Redis, answered after three seconds if one of this name was removed before: by then every server knows.",
            )
            .body::<EndpointDocument>(examples::endpoint_document())
            .parts::<GonePolicyName>()
            .answer::<EndpointView<'_>>(201, "It is new.", &[LOCATION], Some(examples::endpoint()))
            .answer::<EndpointView<'_>>(200, "It is replaced.", &[], None)
            .problems(&[TooManyEndpoints, SigningKey]),
        Route::new(Patch, one, "patchEndpoint")
            .says(
                ENDPOINTS,
                "Changes what the body names",
                "A merge patch (RFC 7396).",
            )
            .patch::<EndpointPatch>(examples::endpoint_patch())
            .answer::<EndpointView<'_>>(200, "It is changed.", &[], None)
            .problems(&[MissingEndpoint, SigningKey]),
        Route::new(Delete, one, "deleteEndpoint")
            .says(
                ENDPOINTS,
                "Removes an endpoint",
                "Answered 409 while something pending names it.",
            )
            .answer_empty(204, "It is removed.")
            .problems(&[MissingEndpoint, EndpointInUse]),
        Route::new(Post, "/v1/endpoints/{name}/test", "testEndpoint")
            .says(
                ENDPOINTS,
                "Makes one signed call",
                "Answered with the attempt, also if it failed. Nothing of it is kept.",
            )
            .optional_body::<NoFields>(examples::nothing())
            .answer::<AttemptView<'_>>(200, "The attempt.", &[], Some(examples::attempt()))
            .problems(&[MissingEndpoint, SigningKey]),
    ]
}

/// A request that adds a signing key.
fn adding(route: Route, missing: &[ProblemKind]) -> Route {
    route
        .optional_body::<KeyToAddDocument>(examples::key_to_add())
        .problems(missing)
        .problems(&[SigningKey])
}

fn keys_of_endpoints() -> Vec<Route> {
    let one = "/v1/endpoints/{name}/keys/{id}";
    let add = Route::new(Post, "/v1/endpoints/{name}/keys", "addSigningKey").says(
        ENDPOINTS,
        "Adds a signing key",
        "The other keys sign along for the time of `overlap`.",
    );
    vec![
        adding(add, &[MissingEndpoint])
            .answer::<AddedKeyView<'_>>(
                201,
                "It is added.",
                &[LOCATION, NO_STORE],
                Some(examples::added_key()),
            )
            .answer::<AddedKeyView<'_>>(
                200,
                "The given secret signs for good already.",
                &[NO_STORE],
                None,
            ),
        Route::new(Get, one, "getSigningKey")
            .says(ENDPOINTS, "Looks a signing key up, without its secret", "")
            .answer::<KeyView<'_>>(200, "The key.", &[], None)
            .problems(&[MissingEndpoint, MissingKey]),
        Route::new(Delete, one, "deleteSigningKey")
            .says(
                ENDPOINTS,
                "Removes a signing key at once",
                "The last one that signs for good cannot be removed.",
            )
            .answer_empty(204, "It is removed.")
            .problems(&[MissingEndpoint, MissingKey, SigningKey]),
    ]
}

fn default_keys() -> Vec<Route> {
    let one = "/v1/default-keys/{id}";
    let add = Route::new(Post, "/v1/default-keys", "addDefaultKey").says(
        DEFAULT_KEYS,
        "Adds a default key",
        "All receivers that verify with a default key share it.",
    );
    vec![
        Route::new(Get, "/v1/default-keys", "listDefaultKeys")
            .says(DEFAULT_KEYS, "Lists the default keys, the newest first", "")
            .answer::<DefaultKeysView<'_>>(200, "All of them.", &[], None)
            .problems(&[NoJournal]),
        adding(add, &[NoJournal])
            .answer::<AddedDefaultKeyView<'_>>(201, "It is added.", &[LOCATION, NO_STORE], None)
            .answer::<AddedDefaultKeyView<'_>>(
                200,
                "The given secret signs for good already.",
                &[NO_STORE],
                None,
            ),
        Route::new(Get, one, "getDefaultKey")
            .says(
                DEFAULT_KEYS,
                "Looks a default key up, without its secret",
                "",
            )
            .answer::<ListedKeyView<'_>>(200, "The key.", &[], None)
            .problems(&[MissingKey, NoJournal]),
        Route::new(Delete, one, "deleteDefaultKey")
            .says(DEFAULT_KEYS, "Removes a default key at once", "")
            .answer_empty(204, "It is removed.")
            .problems(&[MissingKey, SigningKey, NoJournal]),
    ]
}

fn access() -> Vec<Route> {
    let one = "/v1/keys/{name}";
    vec![
        Route::new(Get, "/v1/audit-log", "listAuditLog")
            .says(ACCESS, "What people did, newest first", "")
            .query(audit_parameters())
            .answer::<AuditLogView<'_>>(200, "A page.", &[], Some(examples::audit_log()))
            .problems(&[NoJournal]),
        Route::new(Get, "/v1/keys", "listApiKeys")
            .says(
                ACCESS,
                "Lists all API keys, without the keys themselves",
                "",
            )
            .answer::<ApiKeysView<'_>>(200, "All of them.", &[], None)
            .problems(&[NoJournal]),
        Route::new(Post, "/v1/keys", "makeApiKey")
            .says(
                ACCESS,
                "Makes an API key",
                "The key itself is shown this once.",
            )
            .body::<ApiKeyToMakeDocument>(examples::api_key_to_make())
            .parts::<RoleName>()
            .answer::<MadeApiKeyView<'_>>(
                201,
                "It is made.",
                &[LOCATION, NO_STORE],
                Some(examples::made_api_key()),
            )
            .problems(&[ApiKey, NoJournal]),
        Route::new(Get, one, "getApiKey")
            .says(ACCESS, "Looks an API key up, without the key itself", "")
            .answer::<ListedApiKeyView<'_>>(200, "The key.", &[], None)
            .problems(&[MissingApiKey, NoJournal]),
        Route::new(Delete, one, "revokeApiKey")
            .says(
                ACCESS,
                "Revokes an API key at once",
                "The last operator's key cannot be revoked.",
            )
            .answer_empty(204, "It is revoked.")
            .problems(&[MissingApiKey, ApiKey, NoJournal]),
    ]
}
