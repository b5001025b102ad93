//! Finds the frames in the bytes of an HTTP/2 connection (RFC 9113, section 4.1). Of the payloads, only those of GOAWAY
//! and of WINDOW_UPDATE are read.

/// The bytes that a client sends before its first frame.
pub const PREFACE_BYTES: u32 = 24;
const HEADER_BYTES: usize = 9;

/// The types of frames that are told apart.
pub mod kind {
    /// DATA.
    pub const DATA: u8 = 0;
    /// HEADERS.
    pub const HEADERS: u8 = 1;
    /// SETTINGS.
    pub const SETTINGS: u8 = 4;
    /// PING.
    pub const PING: u8 = 6;
    /// GOAWAY.
    pub const GOAWAY: u8 = 7;
    /// WINDOW_UPDATE.
    pub const WINDOW_UPDATE: u8 = 8;
}
/// The flag of a SETTINGS or PING frame that acknowledges one of the other side.
const ACK: u8 = 1;

/// What was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// The header of a frame.
    Frame(FrameHeader),
    /// What a GOAWAY frame says.
    GoAway {
        /// Streams with a higher id were not processed.
        last_stream: u32,
        /// The error; 0 if there is none.
        code: u32,
    },
    /// What a WINDOW_UPDATE frame of the connection says: so many more bytes of bodies may be sent.
    Widened(u32),
}

/// The header of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameHeader {
    /// The bytes of the payload.
    pub length: u32,
    /// The type of the frame.
    pub kind: u8,
    flags: u8,
    /// The stream; 0 for the connection.
    pub stream: u32,
}

impl FrameHeader {
    fn read(bytes: &[u8; HEADER_BYTES]) -> Self {
        let [a, b, c, kind, flags, rest @ ..] = *bytes;
        Self {
            length: u32::from_be_bytes([0, a, b, c]),
            kind,
            flags,
            stream: stream_id(rest),
        }
    }

    /// Whether these are not the first bytes of a frame, but those of an answer of HTTP/1.
    pub fn is_http1(&self) -> bool {
        self.length.to_be_bytes() == *b"\0HTT" && self.kind == b'P'
    }

    /// Whether this frame holds the settings of its sender.
    pub fn is_settings(&self) -> bool {
        self.kind == kind::SETTINGS && self.flags & ACK == 0
    }

    /// Whether its sender has read what it was sent: it answers a ping or a call.
    pub fn answers(&self) -> bool {
        match self.kind {
            kind::HEADERS | kind::DATA => true,
            kind::PING => self.flags & ACK != 0,
            _ => false,
        }
    }

    /// How many bytes of the payload are read.
    fn read_bytes(&self) -> Option<usize> {
        match (self.kind, self.stream) {
            (kind::GOAWAY, _) => Some(8),
            (kind::WINDOW_UPDATE, 0) => Some(4),
            _ => None,
        }
    }
}

/// Finds the frames in a stream of bytes that comes in parts.
#[derive(Debug)]
pub struct FrameFinder {
    /// The header of the frame, as far as it has come.
    header: [u8; HEADER_BYTES],
    filled: usize,
    /// How many bytes of the payload are still to come.
    rest: u32,
    /// The payload that is read, if it is.
    payload: Option<ReadPayload>,
}

/// The first bytes of the payload of a frame.
#[derive(Debug)]
struct ReadPayload {
    /// So many are read: eight of GOAWAY, four of WINDOW_UPDATE.
    wanted: usize,
    bytes: [u8; 8],
    /// How many have come.
    filled: usize,
}

impl FrameFinder {
    /// Finds frames in what follows after so many bytes.
    pub fn after(bytes: u32) -> Self {
        Self {
            header: [0; HEADER_BYTES],
            filled: 0,
            rest: bytes,
            payload: None,
        }
    }

    /// Goes on with these bytes and reports what it finds.
    pub fn read(&mut self, mut bytes: &[u8], mut report: impl FnMut(Found)) {
        while !bytes.is_empty() {
            if self.rest > 0 {
                let (payload, others) = bytes.split_at(bytes.len().min(self.rest as usize));
                // At most `rest`, so it fits.
                self.rest -= payload.len() as u32;
                bytes = others;
                self.read_payload(payload, &mut report);
                continue;
            }
            let taken = bytes.len().min(HEADER_BYTES - self.filled);
            let (part, others) = bytes.split_at(taken);
            self.header[self.filled..self.filled + taken].copy_from_slice(part);
            self.filled += taken;
            bytes = others;
            if self.filled == HEADER_BYTES {
                let header = FrameHeader::read(&self.header);
                self.filled = 0;
                self.rest = header.length;
                self.payload = header.read_bytes().map(|wanted| ReadPayload {
                    wanted,
                    bytes: [0; 8],
                    filled: 0,
                });
                report(Found::Frame(header));
            }
        }
    }

    fn read_payload(&mut self, payload: &[u8], report: &mut impl FnMut(Found)) {
        let Some(read) = &mut self.payload else {
            return;
        };
        let taken = payload.len().min(read.wanted - read.filled);
        read.bytes[read.filled..read.filled + taken].copy_from_slice(&payload[..taken]);
        read.filled += taken;
        if read.filled < read.wanted {
            return;
        }
        let [a, b, c, d, code @ ..] = read.bytes;
        // The first bit has no meaning in either.
        let first = stream_id([a, b, c, d]);
        report(if read.wanted == 4 {
            Found::Widened(first)
        } else {
            Found::GoAway {
                last_stream: first,
                code: u32::from_be_bytes(code),
            }
        });
        self.payload = None;
    }
}

/// A stream id: the first bit has no meaning.
fn stream_id(bytes: [u8; 4]) -> u32 {
    u32::from_be_bytes(bytes) & 0x7fff_ffff
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
        let length = u32::try_from(payload.len()).expect("short").to_be_bytes();
        let mut bytes = length[1..].to_vec();
        bytes.extend([kind, flags]);
        bytes.extend(stream.to_be_bytes());
        bytes.extend(payload);
        bytes
    }

    #[test]
    fn frames_are_found_however_the_bytes_are_cut() {
        let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
        bytes.extend(frame(kind::SETTINGS, 0, 0, &[0; 12]));
        bytes.extend(frame(kind::SETTINGS, ACK, 0, &[]));
        bytes.extend(frame(kind::HEADERS, 4, 0x8000_0003, &[7; 300]));
        bytes.extend(frame(kind::GOAWAY, 0, 0, &[0x80, 0, 1, 5, 0, 0, 0, 2, 9]));
        bytes.extend(frame(kind::WINDOW_UPDATE, 0, 0, &[0x80, 0, 2, 1]));
        bytes.extend(frame(kind::WINDOW_UPDATE, 0, 3, &[0, 0, 2, 1]));
        bytes.extend(frame(kind::DATA, 1, 3, &[]));
        let all = |cut: usize| {
            let mut finder = FrameFinder::after(PREFACE_BYTES);
            let mut found = Vec::new();
            for part in bytes.chunks(cut) {
                finder.read(part, |what| found.push(what));
            }
            found
        };
        let found = all(bytes.len());
        let header = |length, kind, flags, stream| {
            Found::Frame(FrameHeader {
                length,
                kind,
                flags,
                stream,
            })
        };
        let expected = [
            header(12, kind::SETTINGS, 0, 0),
            header(0, kind::SETTINGS, ACK, 0),
            header(300, kind::HEADERS, 4, 3),
            header(9, kind::GOAWAY, 0, 0),
            Found::GoAway {
                last_stream: 0x105,
                code: 2,
            },
            header(4, kind::WINDOW_UPDATE, 0, 0),
            Found::Widened(0x201),
            header(4, kind::WINDOW_UPDATE, 0, 3),
            header(0, kind::DATA, 1, 3),
        ];
        assert_eq!(found, expected);
        for cut in 1..40 {
            assert_eq!(all(cut), expected, "{cut}");
        }
    }

    #[test]
    fn an_answer_of_http_1_is_recognised() {
        for (bytes, expected) in [(b"HTTP/1.1 400 Bad", true), (b"HTTQ/1.1 400 Bad", false)] {
            let mut found = Vec::new();
            FrameFinder::after(0).read(bytes, |what| found.push(what));
            let [Found::Frame(header)] = found[..] else {
                panic!("{found:?}");
            };
            assert_eq!(header.is_http1(), expected);
        }
    }

    #[test]
    fn only_settings_that_acknowledge_nothing_are_settings() {
        for (kind, flags, expected) in [(4, 0, true), (4, 1, false), (4, 2, true), (0, 0, false)] {
            let mut found = Vec::new();
            FrameFinder::after(0).read(&frame(kind, flags, 0, &[]), |what| found.push(what));
            let [Found::Frame(header)] = found[..] else {
                panic!("{found:?}");
            };
            assert_eq!(header.is_settings(), expected);
        }
    }
}
