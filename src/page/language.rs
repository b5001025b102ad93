//! The languages of the page. A visitor chooses one by a link, which a cookie keeps; else the browser says which it prefers.

use super::cookies;
use http::{HeaderMap, header};

/// A language of the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// English, also for browsers that prefer neither.
    English,
    /// Chinese, in simplified characters.
    Chinese,
}

impl Language {
    /// All languages.
    pub const ALL: [Self; 2] = [Self::English, Self::Chinese];

    /// The tag in links and cookies.
    pub fn tag(self) -> &'static str {
        match self {
            Self::English => "en",
            Self::Chinese => "zh",
        }
    }

    /// The tag in the attribute `lang` (BCP 47).
    pub fn html_tag(self) -> &'static str {
        match self {
            Self::English => "en",
            Self::Chinese => "zh-Hans",
        }
    }

    /// The name of the language, in the language.
    pub fn own_name(self) -> &'static str {
        match self {
            Self::English => "English",
            Self::Chinese => "中文",
        }
    }

    /// The language of a request.
    pub fn of(headers: &HeaderMap) -> Self {
        let chosen = cookies::value_of(headers, cookies::LANGUAGE).and_then(Self::from_tag);
        chosen.unwrap_or_else(|| {
            let accepted = headers.get(header::ACCEPT_LANGUAGE);
            let accepted = accepted.and_then(|value| value.to_str().ok());
            accepted.map_or(Self::English, preferred)
        })
    }

    /// The language of a tag in a link or a cookie.
    pub fn from_tag(tag: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.tag() == tag)
    }
}

/// The first of our languages with the highest weight in `Accept-Language` (RFC 9110, section 12.5.4).
fn preferred(accepted: &str) -> Language {
    let mut best = (0.0, Language::English);
    for range in accepted.split(',') {
        let mut parts = range.split(';').map(str::trim);
        let tag = parts.next().unwrap_or("").to_ascii_lowercase();
        let primary = tag.split('-').next().unwrap_or("");
        let weight = parts
            .find_map(|part| part.strip_prefix("q="))
            .map_or(1.0, |weight| weight.parse().unwrap_or(0.0));
        if let Some(language) = Language::from_tag(primary)
            && weight > best.0
        {
            best = (weight, language);
        }
    }
    best.1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_browsers_preference_counts() {
        fn check(accepted: &str, expected: Language) {
            assert_eq!(preferred(accepted), expected, "{accepted}");
        }
        check("zh-CN,zh;q=0.9,en;q=0.8", Language::Chinese);
        check("en-US,en;q=0.5", Language::English);
        check("de, zh;q=0.2, en;q=0.1", Language::Chinese);
        check("de", Language::English);
        check("en;q=0.5, zh;q=0.8", Language::Chinese);
        check("zh;q=0, en;q=0.1", Language::English);
        check("", Language::English);
        check("zh;q=x", Language::English);
    }
}
