//! Parts of the schemas of requests and answers, for the description of the API.
//!
//! Answers have derived schemas. Requests are read by hand, so their schemas are written by hand too, beside the code that
//! reads them: by [`document`], which takes the same list of names.

use crate::domain::attempt::Outcome;
use crate::domain::deferral::DeferralReason;
use crate::domain::destination::LONGEST_URL;
use crate::domain::job::{JobKind, JobState};
use crate::domain::job_result::{JobReason, JobResult};
use crate::domain::lane_settings::LaneState;
use crate::domain::order::OrderMode;
use crate::domain::priority::Priority;
use crate::domain::receiver_requests::GonePolicy;
use crate::domain::role::Role;
use crate::domain::signing_key::KeyKind;
use crate::domain::state::{Cause, State};
use crate::health::{Store, StoreState, Work};
use serde_json::Value;
use utoipa::openapi::schema::{
    AdditionalProperties, AnyOfBuilder, Array, ArrayBuilder, KnownFormat, ObjectBuilder,
    SchemaFormat, SchemaType, Type,
};
use utoipa::openapi::{Ref, RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

/// The schema of a part of a document: itself, or the name of one.
pub type Part = RefOr<Schema>;

/// Gives a type a schema with a name, so that other schemas can refer to it.
macro_rules! named_schema {
    ($type:ty, $name:literal, $schema:expr) => {
        impl utoipa::PartialSchema for $type {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
                $schema.into()
            }
        }

        impl utoipa::ToSchema for $type {
            fn name() -> std::borrow::Cow<'static, str> {
                $name.into()
            }
        }
    };
}
pub(crate) use named_schema;

/// The names of the states of a notification.
pub struct StateName;
named_schema!(
    StateName,
    "State",
    names(&state_names()).description(Some(
        "The state of a notification: another attempt will be made; one is being made; the merchant acknowledged it; a \
         dead letter; its owner cancelled it, it was superseded, or it was discarded."
    ))
);

/// The names of the states, with `in_flight`, which no store keeps.
#[must_use]
pub fn state_names() -> Vec<&'static str> {
    let mut names: Vec<_> = State::ALL.iter().map(|state| state.as_str()).collect();
    names.insert(1, "in_flight");
    names
}

/// Makes types for the names of the variants of enums.
macro_rules! schema_of_names {
    ($($(#[$doc:meta])* $type:ident = $name:literal, $all:expr, $description:literal;)+) => {
        $(
            $(#[$doc])*
            pub struct $type;
            named_schema!(
                $type,
                $name,
                names(&$all.iter().map(|one| one.as_str()).collect::<Vec<_>>())
                    .description(Some($description))
            );
        )+
    };
}

schema_of_names! {
    /// The names of the causes of an end.
    CauseName = "Cause", Cause::ALL, "Why a notification ended without being delivered.";
    /// The names of the priorities.
    PriorityName = "Priority", Priority::ALL, "Which goes first of those of its lane that are due.";
    /// The names of the modes of an order.
    OrderModeName = "OrderMode", OrderMode::ALL, "`latest`: a higher number ends lower ones that still wait. `strict`: the \
        next number waits until the one before has ended.";
    /// The names of the reasons why an attempt waits.
    DeferralReasonName = "DeferralReason", DeferralReason::ALL, "Why an attempt waits, or had to.";
    /// The names of the outcomes of an attempt.
    OutcomeName = "Outcome", Outcome::ALL, "How an attempt ended.";
    /// The names of the states of a lane.
    LaneStateName = "LaneState", LaneState::ALL, "`probing`: calls get no answer, so one at a time is made, less and less often.";
    /// The names of the kinds of jobs.
    JobKindName = "JobKind", JobKind::ALL, "What a job does.";
    /// The names of the states of a job.
    JobStateName = "JobState", JobState::ALL, "The state of a job.";
    /// The names of what becomes of a notification in a job.
    JobResultName = "JobResult", JobResult::ALL, "What became of a notification when its turn came: it was changed, it needed \
        nothing or must not be changed any more, or it could not be changed.";
    /// The names of the reasons why a job has not changed a notification.
    JobReasonName = "JobReason", JobReason::ALL, "Why a job has not changed a notification.";
    /// The names of the roles.
    RoleName = "Role", Role::ALL, "What an API key permits.";
    /// The names of the kinds of signing keys.
    KeyKindName = "SigningKeyKind", [KeyKind::Symmetric, KeyKind::Ed25519], "HMAC-SHA256 (`v1`), or ed25519 (`v1a`).";
    /// What may be done after an answer 410.
    GonePolicyName = "GonePolicy", GonePolicy::ALL, "What a 410 of the receiver does: the notification is parked, or the lane held.";
    /// The names of the stores.
    StoreName = "Store", [Store::Journal, Store::Schedule], "A store.";
    /// The names of the states of a store.
    StoreStateName = "StoreState", [StoreState::Up, StoreState::Away, StoreState::Refusing, StoreState::Rebuilding],
        "How a store is.";
    /// The names of the kinds of work of a store.
    WorkName = "StoreWork", Work::ALL, "What a store is asked to do.";
}

/// A ladder in an answer.
pub struct LadderText;
named_schema!(
    LadderText,
    "LadderOfAnswer",
    text_or_object("The name of a ladder, or an object as a registration gives it.")
);

/// An ack rule in an answer.
pub struct AckText;
named_schema!(
    AckText,
    "AckOfAnswer",
    text_or_object("The name of an ack rule, or an object as a registration gives it.")
);

fn text_or_object(description: &str) -> AnyOfBuilder {
    AnyOfBuilder::new()
        .item(ObjectBuilder::new().schema_type(Type::String))
        .item(any_object())
        .description(Some(description))
}

/// A string that is one of these.
#[must_use]
pub fn names(names: &[&str]) -> ObjectBuilder {
    text().enum_values(Some(names.iter().copied()))
}

/// A string that is one of these, or `null`.
#[must_use]
pub fn names_or_null(names: &[&str]) -> ObjectBuilder {
    let names = names.iter().map(|name| Value::from(*name));
    text_or_null().enum_values(Some(names.chain([Value::Null])))
}

/// A string.
#[must_use]
pub fn text() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::String)
}

/// A string, or `null`, which means the same as to leave the member out.
#[must_use]
pub fn text_or_null() -> ObjectBuilder {
    or_null(Type::String)
}

/// A value of this type, or `null`.
#[must_use]
pub fn or_null(kind: Type) -> ObjectBuilder {
    let types = SchemaType::from_iter([kind, Type::Null]);
    ObjectBuilder::new().schema_type(types)
}

/// The same object, or `null`.
#[must_use]
pub fn nullable(object: ObjectBuilder) -> ObjectBuilder {
    object.schema_type(SchemaType::from_iter([Type::Object, Type::Null]))
}

/// An instant in RFC 3339, or `null`.
#[must_use]
pub fn time_or_null() -> ObjectBuilder {
    text_or_null().format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime)))
}

/// A duration such as `24h22m`, or `null`.
#[must_use]
pub fn duration_or_null() -> ObjectBuilder {
    text_or_null().pattern(Some(DURATION))
}

/// A topic.
#[must_use]
pub fn topic() -> ObjectBuilder {
    text().pattern(Some(NAME))
}

/// The notation of topics and of the names of endpoints. `.` and `..` are refused too.
pub const NAME: &str = "^(?!\\.{1,2}$)[A-Za-z0-9_.-]{1,64}$";

/// A URL to be called, or `null`.
#[must_use]
pub fn url_or_null() -> ObjectBuilder {
    text_or_null()
        .format(Some(SchemaFormat::Custom("uri".to_string())))
        .max_length(Some(LONGEST_URL))
        .description(Some(
            "`https://...`; plain http only where the settings of the server allow it. Without a user name and a password.",
        ))
}

/// The notation of durations: whole numbers, units from large to small, each at most once.
pub const DURATION: &str =
    "^(?=[0-9])([0-9]{1,15}d)?([0-9]{1,15}h)?([0-9]{1,15}m)?([0-9]{1,15}s)?([0-9]{1,15}ms)?$";

/// An object with members of any name.
#[must_use]
pub fn any_object() -> ObjectBuilder {
    ObjectBuilder::new().additional_properties(Some(AdditionalProperties::FreeForm(true)))
}

/// An object whose members have any names, and values like this; or `null`.
#[must_use]
pub fn map_or_null(values: impl Into<Part>) -> ObjectBuilder {
    or_null(Type::Object).additional_properties(Some(AdditionalProperties::RefOr(values.into())))
}

/// An array of values like this.
#[must_use]
pub fn array_of(items: impl Into<Part>) -> ArrayBuilder {
    Array::builder().items(items.into())
}

/// The same array, or `null`.
#[must_use]
pub fn or_null_list(array: ArrayBuilder) -> ArrayBuilder {
    array.schema_type(SchemaType::from_iter([Type::Array, Type::Null]))
}

/// The reference to the schema of a type.
#[must_use]
pub fn reference<T: ToSchema>() -> Ref {
    Ref::from_schema_name(T::name())
}

/// A reference to the schema of a type, or `null`.
#[must_use]
pub fn reference_or_null<T: ToSchema>() -> AnyOfBuilder {
    AnyOfBuilder::new()
        .item(reference::<T>())
        .item(ObjectBuilder::new().schema_type(Type::Null))
}

/// A document with these members and no others. `members` are in the order of `names`.
#[must_use]
pub fn document<const N: usize>(
    names: &[&str; N],
    members: [Part; N],
    required: &[&str],
) -> ObjectBuilder {
    let mut object =
        ObjectBuilder::new().additional_properties(Some(AdditionalProperties::FreeForm(false)));
    for (name, member) in names.iter().zip(members) {
        object = object.property(*name, member);
    }
    for name in required {
        assert!(
            names.contains(name),
            "invariant: a required member has a name"
        );
        object = object.required(*name);
    }
    object
}

/// The schema of a type, and those that it refers to.
#[must_use]
pub fn with_parts<T: ToSchema>() -> Vec<(String, Part)> {
    let mut parts = vec![(T::name().into_owned(), <T as PartialSchema>::schema())];
    T::schemas(&mut parts);
    parts
}

/// A request that has nothing to say: an empty object, or no body at all.
pub struct NoFields;
named_schema!(
    NoFields,
    "NoFields",
    document(&[], [], &[]).description(Some("An empty object. The body may be left out."))
);
