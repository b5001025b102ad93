//! Reads the place in an order that a registration asks for.

use crate::api::field_errors::{FieldErrors, Noted};
use crate::api::fields::{self, given, required, wrong_kind};
use crate::api::schema::{OrderModeName, document, named_schema, reference, text};
use crate::domain::order::{
    BadOrder, LARGEST_ORDER_NUMBER, LONGEST_ORDER_KEY, OrderMode, OrderPlace, check_order_key,
};
use serde_json::value::RawValue;
use utoipa::openapi::schema::{ObjectBuilder, Type};

const FIELDS: [&str; 3] = ["key", "number", "mode"];

/// Reads `{"key", "number", "mode"}`; `None` if the field is not given.
///
/// # Errors
/// [`Noted`] if a part is missing or wrong.
pub(super) fn read_order(
    field: Option<&RawValue>,
    errors: &mut FieldErrors,
) -> Result<Option<OrderPlace>, Noted> {
    let Some(field) = given(field) else {
        return Ok(None);
    };
    let [key, number, mode] = fields::read(field.get(), &FIELDS, "/order", errors)
        .map_err(|_| errors.add("/order", wrong_kind(field, "an object")))?;
    let key = required(key, "/order/key", errors, |key| {
        check_order_key(key).map(|()| key.to_string())
    });
    let number = match given(number) {
        None => Err(errors.add("/order/number", "this field is missing")),
        Some(number) => match serde_json::from_str::<i64>(number.get()) {
            Ok(number) => Ok(number),
            Err(_) => Err(errors.add("/order/number", BadOrder::Number)),
        },
    };
    let mode = required(mode, "/order/mode", errors, |name| {
        OrderMode::from_name(name).ok_or("a mode is `latest` or `strict`")
    });
    let place = OrderPlace::new(&key?, number?, mode?);
    place
        .map(Some)
        .map_err(|bad| errors.add("/order/number", bad))
}

/// The place in an order as a caller writes it.
pub struct OrderDocument;
named_schema!(OrderDocument, "Order", {
    let number = ObjectBuilder::new()
        .schema_type(Type::Integer)
        .minimum(Some(0))
        .maximum(Some(LARGEST_ORDER_NUMBER as f64));
    let key = text()
        .max_length(Some(LONGEST_ORDER_KEY))
        .pattern(Some("^[ -~]+$"));
    let members = [
        key.into(),
        number.into(),
        reference::<OrderModeName>().into(),
    ];
    document(&FIELDS, members, &FIELDS).description(Some(
        "The place of a notification among those of its lane with the same key.",
    ))
});
