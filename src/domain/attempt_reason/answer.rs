//! Why an answer does not acknowledge.

use crate::domain::sentence::sentences;

sentences!(
    /// Why an answer does not acknowledge.
    AnswerReason {
        Gone = "answered 410 (Gone)";
        Redirected { status: u16, target: String } = "answered {status}: the receiver redirects to `{target}`; redirects are not followed";
        Redirect { status: u16 } = "answered {status}, a redirect; redirects are not followed";
        NotListed { status: u16, accepted: String } = "answered {status}, and not {accepted}";
        WrongBody { status: u16, flaw: BodyFlaw } = "answered {status}, but {flaw}";
        Status { status: u16 } = "answered {status}";
    }
);

sentences!(
    /// What is wrong with the body of an answer whose status is right.
    BodyFlaw {
        TooLong { limit: usize } = "with more than {limit} bytes";
        Empty { expected: String } = "with an empty body and not `{expected}`";
        OtherText { body: String, expected: String } = "the body is `{body}` and not `{expected}`";
        NotJson { body: String } = "the body is not JSON: `{body}`";
        Malformed { body: String } = "the body is not well-formed XML in UTF-8: `{body}`";
        DocumentType { body: String } = "the body declares a document type, which is not read: `{body}`";
        TooDeep { deepest: usize, body: String } = "the body nests more than {deepest} elements: `{body}`";
        NoElement { element: String, body: String } = "the body has no element `{element}`: `{body}`";
        SeveralElements { element: String, body: String } = "the body has several elements `{element}`: `{body}`";
        NestedElements { element: String, body: String } = "the body has other elements inside `{element}`: `{body}`";
        NoPlace { place: String, body: String } = "the body has no `{place}`: `{body}`";
        OtherValue { place: String, found: String, expected: String } = "`{place}` in the body is `{found}` and not `{expected}`";
    }
);
