//! Reads the text of one element of an XML answer.
//!
//! The answer comes from a stranger, so little of XML is read: there is no document type definition, so an
//! entity can never expand to more than one character; nesting has a bound; and the whole text must be
//! well-formed, so that a part of an answer is never taken for all of it.

use quick_xml::Reader;
use quick_xml::escape::resolve_xml_entity;
use quick_xml::events::{BytesRef, BytesStart, Event};

/// Maximum number of elements that are open at the same time.
pub(super) const DEEPEST: usize = 32;

/// Why an answer has no such text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BadXml {
    /// It is no well-formed XML in UTF-8.
    Malformed,
    /// It declares a document type.
    DocumentType,
    /// Its elements are nested too deeply.
    TooDeep,
    /// It has no element of the name.
    Missing,
    /// It has several elements of the name.
    Several,
    /// The element of the name holds other elements.
    NotText,
}

/// The text of the one element of this name, wherever it is in the document. ASCII white space around the
/// text is left out.
pub(super) fn element_text(body: &[u8], name: &str) -> Result<String, BadXml> {
    let text = std::str::from_utf8(body).map_err(|_| BadXml::Malformed)?;
    let mut reader = Reader::from_str(text.trim_ascii());
    reader.config_mut().expand_empty_elements = true;
    let mut document = Document::default();
    loop {
        match reader.read_event().map_err(|_| BadXml::Malformed)? {
            Event::Start(start) => document.open(&start, name)?,
            Event::End(_) => document.close(),
            Event::Text(text) => document.add(&text.xml10_content())?,
            Event::CData(text) => document.add(&text.xml10_content())?,
            Event::GeneralRef(reference) => document.add(&character(&reference)?)?,
            Event::DocType(_) => return Err(BadXml::DocumentType),
            Event::Eof => return document.end(),
            Event::Comment(_) | Event::PI(_) | Event::Decl(_) => {}
            // The reader expands these to a start and an end.
            Event::Empty(_) => return Err(BadXml::Malformed),
        }
    }
}

/// A character or one of the five entities that XML itself defines.
fn character(reference: &BytesRef<'_>) -> Result<String, BadXml> {
    match reference.resolve_char_ref() {
        Ok(Some(character)) => Ok(character.to_string()),
        Ok(None) => resolve_xml_entity(reference)
            .map(ToString::to_string)
            .ok_or(BadXml::Malformed),
        Err(_) => Err(BadXml::Malformed),
    }
}

/// What has been read so far.
#[derive(Default)]
struct Document {
    /// Number of elements that are open.
    depth: usize,
    /// Whether the root element has begun.
    has_root: bool,
    /// The depth inside the element, while that is open.
    inside: Option<usize>,
    found: Option<String>,
}

impl Document {
    fn open(&mut self, start: &BytesStart<'_>, name: &str) -> Result<(), BadXml> {
        if start.attributes().any(|attribute| attribute.is_err()) {
            return Err(BadXml::Malformed);
        }
        if self.depth == 0 && self.has_root {
            return Err(BadXml::Malformed);
        }
        self.has_root = true;
        if self.depth == DEEPEST {
            return Err(BadXml::TooDeep);
        }
        self.depth += 1;
        if self.inside.is_some() {
            return Err(BadXml::NotText);
        }
        if start.name().0 == name {
            if self.found.is_some() {
                return Err(BadXml::Several);
            }
            self.inside = Some(self.depth);
            self.found = Some(String::new());
        }
        Ok(())
    }

    fn close(&mut self) {
        if self.inside == Some(self.depth) {
            self.inside = None;
        }
        self.depth = self.depth.saturating_sub(1);
    }

    fn add(&mut self, text: &str) -> Result<(), BadXml> {
        match &mut self.found {
            Some(found) if self.inside.is_some() => found.push_str(text),
            _ if self.depth == 0 && !text.trim_ascii().is_empty() => return Err(BadXml::Malformed),
            _ => {}
        }
        Ok(())
    }

    fn end(self) -> Result<String, BadXml> {
        if self.depth > 0 || !self.has_root {
            return Err(BadXml::Malformed);
        }
        let found = self.found.ok_or(BadXml::Missing)?;
        Ok(found.trim_ascii().to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_one_element_is_read() {
        fn check(body: &str, expected: Result<&str, BadXml>) {
            let text = element_text(body.as_bytes(), "code");
            assert_eq!(text.as_deref(), expected.as_ref().copied(), "{body}");
        }
        check("<x><code>OK</code></x>", Ok("OK"));
        check("<code>OK</code>", Ok("OK"));
        check("\n<x>\n <code> OK\n</code> </x>\n", Ok("OK"));
        check(
            "<?xml version=\"1.0\"?><x a='1'><code b=\"2\"><![CDATA[OK]]></code><y/></x>",
            Ok("OK"),
        );
        check("<x><code>O<!-- c --><![CDATA[K]]></code></x>", Ok("OK"));
        check("<x><code>&lt;&#79;&#x4b;</code></x>", Ok("<OK"));
        check("<x><code/></x>", Ok(""));
        check("<x><Code>OK</Code></x>", Err(BadXml::Missing));
        check("<x><a:code>OK</a:code></x>", Err(BadXml::Missing));
        check("<x a='<code>OK</code>'/>", Err(BadXml::Missing));
        check("<x><!-- <code>OK</code> --></x>", Err(BadXml::Missing));
        check(
            "<x><code>OK</code><code>OK</code></x>",
            Err(BadXml::Several),
        );
        check("<x><code><b>OK</b></code></x>", Err(BadXml::NotText));
    }

    #[test]
    fn what_is_not_well_formed_has_no_text() {
        fn check(body: &[u8], expected: BadXml) {
            let shown = String::from_utf8_lossy(body);
            assert_eq!(element_text(body, "code"), Err(expected), "{shown}");
        }
        use BadXml::{DocumentType, Malformed, TooDeep};
        check(b"", Malformed);
        check(b"OK", Malformed);
        check(b"{}", Malformed);
        check(b"<x><code>OK</code>", Malformed);
        check(b"<x><code>OK</x>", Malformed);
        check(b"<x><code>OK</code></x><x/>", Malformed);
        check(b"<x><code>OK</code></x>tail", Malformed);
        check(b"head<x><code>OK</code></x>", Malformed);
        check(b"<x><code>OK</code></x", Malformed);
        check(b"<x><code>&ok;</code></x>", Malformed);
        check(b"<x a=1 a=2><code>OK</code></x>", Malformed);
        check(b"\xef\xbb\xbf<x><code>\xff</code></x>", Malformed);
        check(
            b"<!DOCTYPE x [<!ENTITY ok 'OK'>]><x><code>&ok;</code></x>",
            DocumentType,
        );
        check(b"<!DOCTYPE html><html></html>", DocumentType);
        let nested = |depth: usize| {
            let open = "<a>".repeat(depth - 1);
            format!("{open}<code>OK</code>{}", "</a>".repeat(depth - 1))
        };
        check(nested(DEEPEST + 1).as_bytes(), TooDeep);
        check("<a>".repeat(20_000).as_bytes(), TooDeep);
        assert_eq!(
            element_text(nested(DEEPEST).as_bytes(), "code").as_deref(),
            Ok("OK")
        );
    }
}
