use super::*;
use crate::domain::sentence::sample::Texts;
use proptest::prelude::*;

/// A failure of every template and of every form of its parameters.
fn failures(texts: &mut Texts) -> Vec<FailureReason> {
    let mut all: Vec<FailureReason> = Vec::new();
    all.extend(AnswerReason::samples(texts).into_iter().map(Into::into));
    all.extend(ConnectionReason::samples(texts).into_iter().map(Into::into));
    all.extend(TlsReason::samples(texts).into_iter().map(Into::into));
    all.extend(Http2Reason::samples(texts).into_iter().map(Into::into));
    all.extend(ProxyReason::samples(texts).into_iter().map(Into::into));
    all.extend(UnsentReason::samples(texts).into_iter().map(Into::into));
    all
}

fn reasons(texts: &mut Texts) -> Vec<AttemptReason> {
    let of = |failure: FailureReason, request, is_recovery| AttemptReason {
        failure: Some(failure),
        request,
        is_recovery,
    };
    let mut all = Vec::new();
    for failure in failures(texts) {
        all.push(of(failure.clone(), None, false));
        all.push(of(failure, None, true));
    }
    for request in RequestReason::samples(texts) {
        // Requests of receivers are followed with these statuses alone.
        for failure in [AnswerReason::Gone, AnswerReason::Status { status: 429 }] {
            all.push(of(failure.clone().into(), Some(request.clone()), false));
            all.push(of(failure.into(), Some(request.clone()), true));
        }
    }
    all
}

#[test]
fn every_reason_is_read_back_as_itself() {
    let all = reasons(&mut Texts::default());
    assert!(all.len() > 250, "{}", all.len());
    for reason in all {
        let sentence = reason.to_string();
        assert_eq!(AttemptReason::read(&sentence), Some(reason), "{sentence}");
    }
}

proptest! {
    /// Parameters may contain what the templates contain. Then it is read with the words divided in another way, or as
    /// another reason, but it is read, and it is the same sentence.
    #[test]
    fn whatever_the_parameters_are_the_sentence_is_read(
        texts in prop::collection::vec(
            prop_oneof![
                "[a-z0-9.:/_-]{0,12}",
                "\\PC{0,40}",
                "(` and not `|` in the body is `|: |, but |, not for | \\(|\\)|\\(Retry-After\\), | in time|x){0,4}",
            ],
            1..7,
        )
    ) {
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        for reason in reasons(&mut Texts::of(&texts)) {
            let sentence = reason.to_string();
            let read = AttemptReason::read(&sentence);
            prop_assert!(read.is_some(), "{sentence}");
            prop_assert_eq!(read.map(|read| read.to_string()), Some(sentence));
        }
    }

    /// What is read is exactly what was recorded.
    #[test]
    fn a_reason_that_is_read_says_what_was_recorded(recorded in "\\PC{0,80}") {
        if let Some(read) = AttemptReason::read(&recorded) {
            prop_assert_eq!(read.to_string(), recorded);
        }
    }
}

#[test]
fn other_sentences_are_not_read() {
    for unknown in [
        "",
        "answered",
        "answered 0500",
        "answered +500",
        "answered 500 ",
        " answered 500",
        "Answered 500",
        "answered 500; and more",
        "answered 99999",
        "answered 200, but somehow",
        "the address 10.0.0.1 is mine, and no allowed destination contains it",
        "no complete answer",
        "the receiver asks to wait 1h",
        "answered 410 (Gone): the receiver asks for no more calls, please",
        " (recovery attempt: the window closed before it could be made)",
    ] {
        assert_eq!(AttemptReason::read(unknown), None, "{unknown}");
    }
}

#[test]
fn parameters_are_read_as_they_were_written() {
    fn check(recorded: &str, expected: impl Into<FailureReason>) {
        let read = AttemptReason::read(recorded).and_then(|read| read.failure);
        assert_eq!(read, Some(expected.into()), "{recorded}");
    }
    check("answered 500", AnswerReason::Status { status: 500 });
    // A receiver that answers with a part of the template does not move what the rule expects.
    let flaw = BodyFlaw::OtherText {
        body: "a` and not `b".to_string(),
        expected: "success".to_string(),
    };
    check(
        "answered 200, but the body is `a` and not `b` and not `success`",
        AnswerReason::WrongBody { status: 200, flaw },
    );
    check(
        "the address 10.0.0.1 is private, and no allowed destination contains it",
        ConnectionReason::InternalAddress {
            address: "10.0.0.1".to_string(),
            kind: AddressKind::Private,
        },
    );
    check(
        "no complete answer within 10s; the time ran out while the answer was awaited",
        ConnectionReason::TimedOutWhile {
            limit: "10s".to_string(),
            awaited: AwaitedStep::FirstByte,
        },
    );
}
