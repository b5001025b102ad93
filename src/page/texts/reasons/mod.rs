//! The reasons of attempts in Chinese. Stores have them in English ([`crate::domain::attempt_reason`]).
//!
//! Each function gives the sentence, and what of it nobody can translate: a text of the operating system or of a library.

mod connection;
mod tls;

use crate::domain::attempt_reason::{
    AnswerReason, AskedWait, AttemptReason, BodyFlaw, FailureReason, RequestReason,
};

/// A sentence in Chinese, and a text in English that belongs to it; empty if there is none.
pub type ChineseReason<'a> = (String, &'a str);

/// A reason in Chinese.
pub fn in_chinese(reason: &AttemptReason) -> ChineseReason<'_> {
    let (mut sentence, foreign) = match &reason.failure {
        Some(failure) => of_failure(failure),
        None => (String::new(), ""),
    };
    if let Some(request) = &reason.request {
        sentence.push_str(&of_request(request));
    }
    if reason.is_recovery {
        let mark = "补投：重试时间窗口在投递前已关闭";
        sentence = match sentence.as_str() {
            "" => mark.to_string(),
            sentence => format!("{sentence}（{mark}）"),
        };
    }
    (sentence, foreign)
}

fn of_failure(failure: &FailureReason) -> ChineseReason<'_> {
    match failure {
        FailureReason::Answer(reason) => (of_answer(reason), ""),
        FailureReason::Connection(reason) => connection::of_connection(reason),
        FailureReason::Tls(reason) => tls::of_tls(reason),
        FailureReason::Http2(reason) => connection::of_http2(reason),
        FailureReason::Proxy(reason) => connection::of_proxy(reason),
        FailureReason::Unsent(reason) => connection::of_unsent(reason),
    }
}

fn of_answer(reason: &AnswerReason) -> String {
    match reason {
        AnswerReason::Gone => "应答状态码 410（Gone）".to_string(),
        AnswerReason::Redirected { status, target } => {
            format!("应答状态码 {status}：商户重定向到 `{target}`，不跟随重定向")
        }
        AnswerReason::Redirect { status } => format!("应答状态码 {status}（重定向），不跟随重定向"),
        AnswerReason::NotListed { status, accepted } => {
            let accepted = accepted.replace(" or ", " 或 ");
            format!("应答状态码 {status}，约定为 {accepted}")
        }
        AnswerReason::WrongBody { status, flaw } => {
            format!("应答状态码 {status}，但{}", of_flaw(flaw))
        }
        AnswerReason::Status { status } => format!("应答状态码 {status}"),
    }
}

fn of_flaw(flaw: &BodyFlaw) -> String {
    match flaw {
        BodyFlaw::TooLong { limit } => format!("应答内容超过 {limit} 字节"),
        BodyFlaw::Empty { expected } => format!("应答内容为空，应为 `{expected}`"),
        BodyFlaw::OtherText { body, expected } => {
            format!("应答内容为 `{body}`，应为 `{expected}`")
        }
        BodyFlaw::NotJson { body } => format!("应答内容不是 JSON：`{body}`"),
        BodyFlaw::Malformed { body } => format!("应答内容不是格式正确的 UTF-8 XML：`{body}`"),
        BodyFlaw::DocumentType { body } => {
            format!("应答内容声明了文档类型（DOCTYPE），不予解析：`{body}`")
        }
        BodyFlaw::TooDeep { deepest, body } => {
            format!("应答内容的元素嵌套超过 {deepest} 层：`{body}`")
        }
        BodyFlaw::NoElement { element, body } => {
            format!("应答内容中没有元素 `{element}`：`{body}`")
        }
        BodyFlaw::SeveralElements { element, body } => {
            format!("应答内容中有多个元素 `{element}`：`{body}`")
        }
        BodyFlaw::NestedElements { element, body } => {
            format!("应答内容的元素 `{element}` 中还有其他元素：`{body}`")
        }
        BodyFlaw::NoPlace { place, body } => format!("应答内容中没有 `{place}`：`{body}`"),
        BodyFlaw::OtherValue {
            place,
            found,
            expected,
        } => format!("应答内容中 `{place}` 为 `{found}`，应为 `{expected}`"),
    }
}

fn of_request(request: &RequestReason) -> String {
    match request {
        RequestReason::Stopped => "：商户要求停止通知".to_string(),
        RequestReason::NotStopped => "，按普通失败处理".to_string(),
        RequestReason::MovedToDeadline { asks, to, from } => format!(
            "；{}（Retry-After），因此下次投递由 {from} 改为重试时间窗口关闭时的 {to}",
            of_wait(asks)
        ),
        RequestReason::Moved { asks, to, from } => format!(
            "；{}（Retry-After），因此下次投递由 {from} 改为 {to}",
            of_wait(asks)
        ),
        RequestReason::NotEarlier { asks } => {
            format!(
                "；{}（Retry-After），下次投递本就不早于该时间",
                of_wait(asks)
            )
        }
        RequestReason::AtTheEnd { asks } => format!(
            "；{}（Retry-After），但下次投递时重试时间窗口即关闭",
            of_wait(asks)
        ),
        RequestReason::NoneLeft { asks } => {
            format!("；{}（Retry-After），但已没有剩余投递", of_wait(asks))
        }
        RequestReason::Unusable => {
            "；其 Retry-After 不是单个秒数，也不是 60 天以内的单个 HTTP 日期，因此不起作用"
                .to_string()
        }
        RequestReason::NotFollowed { asks } => {
            format!("；{}（Retry-After），此处不遵循该要求", of_wait(asks))
        }
    }
}

fn of_wait(asks: &AskedWait) -> String {
    match asks {
        AskedWait::Unclear => "商户要求等待".to_string(),
        AskedWait::Until { at } => format!("商户要求等到 {at}"),
        AskedWait::For { long } => format!("商户要求等待 {long}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recorded_reason_is_said_in_chinese() {
        fn check(recorded: &str, expected: &str, foreign: &str) {
            let reason = AttemptReason::read(recorded).expect(recorded);
            let (sentence, english) = in_chinese(&reason);
            assert_eq!((sentence.as_str(), english), (expected, foreign));
        }
        check("answered 500", "应答状态码 500", "");
        check(
            "answered 200, but the body is `fail` and not `success`",
            "应答状态码 200，但应答内容为 `fail`，应为 `success`",
            "",
        );
        check(
            "answered 410 (Gone): the receiver asks for no more calls",
            "应答状态码 410（Gone）：商户要求停止通知",
            "",
        );
        check(
            "answered 503 (recovery attempt: the window closed before it could be made)",
            "应答状态码 503（补投：重试时间窗口在投递前已关闭）",
            "",
        );
        check(
            "the host name cannot be resolved: Name or service not known",
            "域名无法解析",
            "Name or service not known",
        );
        check(
            "the certificate is for a.example, b.example and 2 more, not for shop.example",
            "证书适用于 a.example、b.example 等（另有 2 个），不适用于 shop.example",
            "",
        );
        check(
            "no complete answer within 10s; the time ran out while the answer was awaited",
            "10s 内未收到完整应答；超时发生在等待应答时",
            "",
        );
    }
}
