//! The entries of the table of settings that are about traces.

use super::otlp::{OtlpEndpoint, OtlpHeaders, ratio};
use super::setting::{Arity, Setting, in_file};
use super::values;

pub(super) const ENDPOINT: Setting = Setting {
    name: "otlp-endpoint",
    value: "URL",
    default: "",
    help: "The collector of OpenTelemetry that gets the traces, http://127.0.0.1:4318; if not set, none are recorded",
    arity: Arity::One,
    set: |draft, text| {
        draft.config.traces.endpoint = Some(OtlpEndpoint::parse(text)?);
        Ok(())
    },
};

pub(super) const HEADERS: Setting = Setting {
    name: "otlp-headers",
    value: "HEADERS",
    default: "",
    help: "Headers of the requests to that collector, such as authorization=Basic%20YTpi,x-scope-orgid=shop",
    arity: Arity::One,
    set: |draft, text| {
        draft.config.traces.headers = Some(OtlpHeaders::parse(text)?);
        Ok(())
    },
};

pub(super) const HEADERS_FILE: Setting = in_file(
    "otlp-headers-file",
    "A file that contains those headers, instead of `otlp-headers`",
    |draft, text| {
        draft.files.otlp_headers = Some(values::path(text)?);
        Ok(())
    },
);

pub(super) const SAMPLE_RATIO: Setting = Setting {
    name: "trace-sample-ratio",
    value: "RATIO",
    default: "1",
    help: "The part of the traces that begin here which is recorded, from 0 to 1; the caller decides about its own",
    arity: Arity::One,
    set: |draft, text| {
        draft.config.traces.sample_ratio = ratio(text)?;
        Ok(())
    },
};
