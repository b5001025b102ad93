//! Reads PEM texts (RFC 7468): certificates and private keys.
//!
//! What a text contains beside its blocks is left out, since tools write descriptions there. An error contains
//! nothing of the text, which may be a secret.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use thiserror::Error;
use zeroize::Zeroizing;

const BEGIN: &str = "-----BEGIN ";
const END: &str = "-----END ";
const DASHES: &str = "-----";
/// Characters of base64 in a line.
const LINE: usize = 64;

/// Why a text is not PEM.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum BadPem {
    /// A block has no end, or another one.
    #[error("a PEM block has no matching END line")]
    Unended,
    /// The content of a block is not base64.
    #[error("a PEM block is not base64")]
    Base64,
}

/// One block. Its memory is overwritten when it is dropped.
pub struct PemBlock<'text> {
    /// What it says it is: `CERTIFICATE`.
    pub label: &'text str,
    /// Its bytes.
    pub bytes: Zeroizing<Vec<u8>>,
}

/// The blocks of a text, in their order.
///
/// # Errors
/// [`BadPem`].
pub fn blocks(text: &str) -> Result<Vec<PemBlock<'_>>, BadPem> {
    let mut blocks = Vec::new();
    let mut lines = text.lines().map(str::trim);
    while let Some(line) = lines.next() {
        let Some(label) = between(line, BEGIN) else {
            continue;
        };
        // Room for everything, so that the buffer does not move and leave a copy of a key behind.
        let mut encoded = Zeroizing::new(String::with_capacity(text.len()));
        loop {
            let line = lines.next().ok_or(BadPem::Unended)?;
            if let Some(end) = between(line, END) {
                if end != label {
                    return Err(BadPem::Unended);
                }
                break;
            }
            // Old encrypted keys have headers (RFC 1421).
            if !line.contains(':') {
                encoded.push_str(line);
            }
        }
        let mut bytes = Zeroizing::new(Vec::with_capacity(encoded.len()));
        let decoded = STANDARD.decode_vec(encoded.as_bytes(), &mut bytes);
        decoded.map_err(|_| BadPem::Base64)?;
        blocks.push(PemBlock { label, bytes });
    }
    Ok(blocks)
}

/// Writes one block.
#[must_use]
pub fn block(label: &str, bytes: &[u8]) -> Zeroizing<String> {
    let encoded = Zeroizing::new(STANDARD.encode(bytes));
    let lines = encoded.len().div_ceil(LINE);
    let room = encoded.len() + lines + 2 * (label.len() + 20);
    let mut text = Zeroizing::new(String::with_capacity(room));
    for part in [BEGIN, label, DASHES, "\n"] {
        text.push_str(part);
    }
    for start in (0..encoded.len()).step_by(LINE) {
        text.push_str(&encoded[start..encoded.len().min(start + LINE)]);
        text.push('\n');
    }
    for part in [END, label, DASHES, "\n"] {
        text.push_str(part);
    }
    text
}

fn between<'line>(line: &'line str, start: &str) -> Option<&'line str> {
    line.strip_prefix(start)?.strip_suffix(DASHES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_found_among_other_text_and_written_again() {
        let one = block("CERTIFICATE", &[7; 100]);
        let two = block("PRIVATE KEY", &[8; 48]);
        let text = format!("Subject: x\n{}\r\n  other\n{}", &*one, &*two);
        let found = blocks(&text).expect("PEM");
        let found: Vec<_> = (found.iter())
            .map(|block| (block.label, &block.bytes[..]))
            .collect();
        assert_eq!(
            found,
            [("CERTIFICATE", &[7; 100][..]), ("PRIVATE KEY", &[8; 48])]
        );
        assert_eq!(blocks("hunter2").map(|blocks| blocks.len()).ok(), Some(0));
    }

    #[test]
    fn a_damaged_text_is_refused() {
        fn check(text: &str, expected: BadPem) {
            assert_eq!(blocks(text).err(), Some(expected), "{text}");
        }
        check("-----BEGIN A-----\nAAAA\n", BadPem::Unended);
        check(
            "-----BEGIN A-----\nAAAA\n-----END B-----\n",
            BadPem::Unended,
        );
        check("-----BEGIN A-----\nAA%A\n-----END A-----\n", BadPem::Base64);
        check("-----BEGIN A-----\nAAA\n-----END A-----\n", BadPem::Base64);
    }
}
