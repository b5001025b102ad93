//! The value of `tracestate`: what each tracing system keeps of its own, as a list of `key=value`.
//!
//! It is handed on and not interpreted. If one member is not allowed, all are left out, as the standard asks for.

/// Maximum number of members, by the standard.
const MOST_MEMBERS: usize = 32;
/// How many bytes are kept. The standard asks for this many at least.
const MOST_BYTES: usize = 512;
/// Members that are longer are left out before all others, by the standard.
const LARGE_MEMBER: usize = 128;
/// Maximum length of a key, and of a value.
const LONGEST_PART: usize = 256;

/// A list of at least one member, without white space between them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceState(Box<str>);

impl TraceState {
    /// Reads the values of all headers `tracestate` of a request, in their order. `None` if there is no member, or one is
    /// not allowed. If the list is too long to be kept, members of more than 128 bytes are left out first, the last of
    /// them before the others, and then those at the end.
    #[must_use]
    pub fn parse<'text>(values: impl IntoIterator<Item = &'text str>) -> Option<Self> {
        let mut members: Vec<(&str, &str)> = Vec::new();
        for member in values.into_iter().flat_map(|value| value.split(',')) {
            let member = member.trim_matches([' ', '\t']);
            if member.is_empty() {
                continue;
            }
            let (key, value) = member.split_once('=')?;
            let is_known = members.iter().any(|(known, _)| *known == key);
            if members.len() == MOST_MEMBERS || is_known || !is_key(key) || !is_value(value) {
                return None;
            }
            members.push((key, value));
        }
        while length(&members) > MOST_BYTES {
            let is_large = |member: &(&str, &str)| member_length(*member) > LARGE_MEMBER;
            let last_large = members.iter().rposition(is_large);
            members.remove(last_large.unwrap_or(members.len() - 1));
        }
        if members.is_empty() {
            return None;
        }
        let members = members.iter().map(|(key, value)| format!("{key}={value}"));
        Some(Self(Vec::from_iter(members).join(",").into()))
    }

    /// The value of the header `tracestate`.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn is_key(key: &str) -> bool {
    let allowed =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-*/@".contains(&byte);
    let first = key.bytes().next();
    first.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
        && key.len() <= LONGEST_PART
        && key.bytes().all(allowed)
}

/// White space at its end was removed, and a comma ends it.
fn is_value(value: &str) -> bool {
    let allowed = |byte: u8| (b' '..=b'~').contains(&byte) && byte != b'=';
    !value.is_empty() && value.len() <= LONGEST_PART && value.bytes().all(allowed)
}

fn member_length((key, value): (&str, &str)) -> usize {
    key.len() + 1 + value.len()
}

fn length(members: &[(&str, &str)]) -> usize {
    let bytes: usize = members.iter().copied().map(member_length).sum();
    bytes + members.len().saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(values: &[&str], expected: Option<&str>) {
        let read = TraceState::parse(values.iter().copied());
        assert_eq!(
            read.as_ref().map(TraceState::as_str),
            expected,
            "{values:?}"
        );
    }

    #[test]
    fn members_are_of_the_standards_form() {
        check(&["rojo=00f067aa0ba902b7"], Some("rojo=00f067aa0ba902b7"));
        check(&["a=1,b=2", "c=3"], Some("a=1,b=2,c=3"));
        check(&[" a=1 ,\t, b=x y\t", ""], Some("a=1,b=x y"));
        check(&["0tenant@sys-1_*/=~!"], Some("0tenant@sys-1_*/=~!"));
        check(&[], None);
        check(&["", " , "], None);
        for wrong in [
            "a",
            "a=",
            "=1",
            "A=1",
            "_a=1",
            "@a=1",
            "a b=1",
            "a =1",
            "a=1=2",
            "a=\u{e9}",
            "é=1",
            "a=1\u{7f}",
            "a=1\tb",
            "a=1,a=2",
            "a=1\r\nx: y",
        ] {
            check(&[wrong], None);
            check(&["right=1", wrong], None);
        }
        let longest = format!("{}={}", "k".repeat(256), "v".repeat(255));
        check(&[&longest], Some(&longest));
        check(&[&format!("{}=1", "k".repeat(257))], None);
        check(&[&format!("k={}", "v".repeat(257))], None);
    }

    #[test]
    fn the_list_is_bounded() {
        let list =
            |members: usize| Vec::from_iter((0..members).map(|number| format!("k{number}=1")));
        check(&[&list(32).join(",")], Some(&list(32).join(",")));
        check(&[&list(33).join(",")], None);
        let long = |key: &str, bytes: usize| format!("{key}={}", "v".repeat(bytes - key.len() - 1));
        // 512 bytes in all, and one more.
        let (a, b, c) = (long("a", 128), long("b", 254), long("c", 128));
        check(&[&a, &b, &c], Some(&format!("{a},{b},{c}")));
        check(&[&a, &long("b", 255), &c], Some(&format!("{a},{c}")));
        // No member is large, so that at the end is left out.
        let small = ["a", "b", "c", "d"].map(|key| long(key, 128));
        check(&[&small.join(",")], Some(&small[..3].join(",")));
        let (first, last) = (long("a", 250), long("d", 100));
        check(
            &[&first, &long("b", 200), "c=1", &last],
            Some(&format!("{first},c=1,{last}")),
        );
        check(&[&format!("{}={}", "k".repeat(256), "v".repeat(256))], None);
    }
}
