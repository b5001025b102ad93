//! What became of the endpoint that a notification names.

use crate::domain::state::State;
use crate::page::language::Language;
use crate::service::EndpointLoss;

/// What became of the endpoint, and what that means for a notification in this state. There is no full stop at the end.
pub fn in_words(loss: EndpointLoss, state: State, language: Language) -> &'static str {
    match (language, loss, state) {
        (Language::English, loss, state) => loss.in_words(state),
        (Language::Chinese, EndpointLoss::Removed, State::Scheduled) => {
            "所属端点已删除，将按该端点最后的设置投递"
        }
        (Language::Chinese, EndpointLoss::Removed, State::Dead) => {
            "所属端点已删除，重放时使用该端点最后的设置；如届时已重新创建同名端点，则无法重放"
        }
        (Language::Chinese, EndpointLoss::Removed, State::Delivered) => {
            "所属端点已删除，重新发送时使用该端点最后的设置；如届时已重新创建同名端点，则无法重新发送"
        }
        (Language::Chinese, EndpointLoss::Removed, State::Cancelled) => "所属端点已删除",
        (Language::Chinese, EndpointLoss::MadeAgain, State::Scheduled) => {
            "所属端点已删除并重新创建，可能已归他人所有：不会发往新端点，将成为死信。如需发往新端点，请以其他订单号重新登记"
        }
        (
            Language::Chinese,
            EndpointLoss::MadeAgain,
            State::Delivered | State::Dead | State::Cancelled,
        ) => {
            "所属端点已删除并重新创建，可能已归他人所有：不会再发往新端点。如需发往新端点，请以其他订单号重新登记"
        }
        (Language::Chinese, EndpointLoss::Unrecorded, State::Scheduled) => {
            "没有所属端点的记录，重新设置该端点后才会投递"
        }
        (Language::Chinese, EndpointLoss::Unrecorded, State::Delivered | State::Dead) => {
            "没有所属端点的记录：如再次发送，重新设置该端点后才会投递"
        }
        (Language::Chinese, EndpointLoss::Unrecorded, State::Cancelled) => "没有所属端点的记录",
    }
}
