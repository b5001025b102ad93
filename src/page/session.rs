//! Sessions: what the cookie of a signed-in browser contains, and the tokens of its forms.
//!
//! A server keeps nothing of a session, so the cookie works on every server that shares the master key, from which the key
//! that signs the cookies is derived. It contains the name of the API key, a fingerprint of the key and its own end. The
//! API key itself is looked up at each request, so its end, its revocation and its role count as they do for the API. The
//! fingerprint is an HMAC: who sees a cookie cannot try keys on it.

use crate::domain::api_key::ApiKeyDigest;
use hmac::{KeyInit, Mac, SimpleHmacReset};
use sha2::Sha256;
use subtle::ConstantTimeEq as _;
use zeroize::Zeroizing;

/// For how long one is signed in, in milliseconds: 12 hours.
pub const SESSION_MS: i64 = 12 * 3_600_000;
/// What a cookie begins with: the form of the rest.
const FORM: &str = "1";
/// Characters of a cookie at most: that of the longest name of a key is shorter.
const LONGEST_COOKIE: usize = 512;

/// Signs the cookies of sessions and the tokens of forms.
pub struct SessionSigner(Zeroizing<[u8; 32]>);

/// An open session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// The name of the API key. `None`: the key of the settings.
    pub key_name: Option<String>,
    /// The fingerprint of the API key.
    fingerprint: String,
    /// When it ends, in milliseconds since 1970.
    pub ends_ms: i64,
}

impl SessionSigner {
    /// A signer with this key.
    pub fn new(key: Zeroizing<[u8; 32]>) -> Self {
        Self(key)
    }

    /// A signer with a key of random bytes. Its cookies are good for this process alone.
    ///
    /// # Errors
    /// If the operating system gives no random bytes.
    pub fn random() -> Result<Self, String> {
        let mut key = Zeroizing::new([0; 32]);
        getrandom::fill(&mut key[..]).map_err(|error| error.to_string())?;
        Ok(Self(key))
    }

    /// The session of whoever signs in with this key now.
    pub fn session(&self, key_name: Option<String>, digest: &ApiKeyDigest, now_ms: i64) -> Session {
        Session {
            key_name,
            fingerprint: self.fingerprint(digest),
            ends_ms: now_ms.saturating_add(SESSION_MS),
        }
    }

    /// The text of the cookie.
    pub fn cookie(&self, session: &Session) -> String {
        let text = written(session);
        let mac = self.mac("session", text.as_bytes());
        format!("{text}:{mac}")
    }

    /// Reads a cookie; `None` if it was not made with this key, or if the session has ended.
    pub fn read(&self, cookie: &str, now_ms: i64) -> Option<Session> {
        if cookie.len() > LONGEST_COOKIE {
            return None;
        }
        let (text, mac) = cookie.rsplit_once(':')?;
        if !is_same(mac, &self.mac("session", text.as_bytes())) {
            return None;
        }
        let mut parts = text.split(':');
        let mut next = || parts.next();
        let (FORM, name, fingerprint, ends_ms) = (next()?, next()?, next()?, next()?) else {
            return None;
        };
        let session = Session {
            key_name: (!name.is_empty()).then(|| name.to_string()),
            fingerprint: fingerprint.to_string(),
            ends_ms: ends_ms.parse().ok()?,
        };
        (now_ms < session.ends_ms).then_some(session)
    }

    /// Whether the session was opened with the key of this digest.
    pub fn is_of(&self, session: &Session, digest: &ApiKeyDigest) -> bool {
        is_same(&session.fingerprint, &self.fingerprint(digest))
    }

    /// The token of the forms of a session. `None`: of whoever needs no key, or is not signed in.
    pub fn form_token(&self, session: Option<&Session>) -> String {
        let text = session.map(written).unwrap_or_default();
        self.mac("form", text.as_bytes())
    }

    /// Whether a form has the token of the session.
    pub fn is_form_token(&self, token: &str, session: Option<&Session>) -> bool {
        is_same(token, &self.form_token(session))
    }

    fn fingerprint(&self, digest: &ApiKeyDigest) -> String {
        self.mac("key", digest.as_bytes())
    }

    /// An HMAC-SHA-256 for one purpose, in hexadecimal digits. No purpose has a line break.
    fn mac(&self, purpose: &str, text: &[u8]) -> String {
        let mut mac = SimpleHmacReset::<Sha256>::new_from_slice(&self.0[..])
            .expect("invariant: HMAC takes any key");
        mac.update(purpose.as_bytes());
        mac.update(b"\n");
        mac.update(text);
        let bytes = mac.finalize_reset().into_bytes();
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// A session as text. The name of a key has no colon.
fn written(session: &Session) -> String {
    let Session {
        key_name,
        fingerprint,
        ends_ms,
    } = session;
    let name = key_name.as_deref().unwrap_or("");
    format!("{FORM}:{name}:{fingerprint}:{ends_ms}")
}

/// Compares in constant time.
fn is_same(one: &str, other: &str) -> bool {
    one.as_bytes().ct_eq(other.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signer(byte: u8) -> SessionSigner {
        SessionSigner::new(Zeroizing::new([byte; 32]))
    }

    #[test]
    fn a_cookie_is_good_until_its_end_and_for_its_signer_alone() {
        let digest = ApiKeyDigest::of(b"hunter2");
        for name in [None, Some("desk.1".to_string())] {
            let session = signer(1).session(name, &digest, 5);
            let cookie = signer(1).cookie(&session);
            assert!(!cookie.contains("hunter2"));
            let last_ms = 5 + SESSION_MS - 1;
            assert_eq!(signer(1).read(&cookie, last_ms), Some(session.clone()));
            assert_eq!(signer(1).read(&cookie, last_ms + 1), None);
            assert_eq!(signer(2).read(&cookie, 5), None);
            assert!(signer(1).is_of(&session, &digest));
            assert!(!signer(1).is_of(&session, &ApiKeyDigest::of(b"other")));
        }
    }

    #[test]
    fn a_changed_cookie_is_refused() {
        let signer = signer(1);
        let session = signer.session(Some("desk".to_string()), &ApiKeyDigest::of(b"k"), 0);
        let cookie = signer.cookie(&session);
        for at in 0..cookie.len() {
            let mut bytes = cookie.clone().into_bytes();
            bytes[at] ^= 1;
            let changed = String::from_utf8(bytes).expect("ASCII");
            assert_eq!(signer.read(&changed, 0), None, "{changed}");
        }
        for wrong in ["", ":", "1:desk", &cookie[1..], &cookie[..cookie.len() - 1]] {
            assert_eq!(signer.read(wrong, 0), None, "{wrong}");
        }
    }

    #[test]
    fn a_token_is_that_of_one_session() {
        let signer = signer(1);
        let one = signer.session(None, &ApiKeyDigest::of(b"k"), 0);
        let other = signer.session(None, &ApiKeyDigest::of(b"k"), 1);
        let token = signer.form_token(Some(&one));
        assert!(signer.is_form_token(&token, Some(&one)));
        assert!(!signer.is_form_token(&token, Some(&other)));
        assert!(!signer.is_form_token(&token, None));
        assert!(!signer.is_form_token("", None));
        assert!(signer.is_form_token(&signer.form_token(None), None));
    }
}
