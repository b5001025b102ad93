//! What is around every page: the search box, the navigation, who is signed in, messages.

use super::assets;
use super::html::encoded;
use super::language::Language;
use super::rights::{Access, access_to};
use super::texts::frame::FrameTexts;
use super::texts::{api_keys, bulk, destinations, endpoints};
use super::visit::Visit;
use crate::domain::role::Role;
use http::Method;

/// A page of the navigation: the address and the text.
type NavigationRow = (&'static str, fn(&FrameTexts) -> &'static str);

/// The pages of the navigation. A page is there for those who may open it.
const NAVIGATION: &[NavigationRow] = &[
    ("/ui/", |texts| texts.overview),
    ("/ui/search", |texts| texts.search),
    ("/ui/dead-letters", |texts| texts.dead_letters),
    ("/ui/jobs", |texts| texts.jobs),
    ("/ui/destinations", |texts| texts.destinations),
    ("/ui/endpoints", |texts| texts.endpoints),
    ("/ui/keys", |texts| texts.api_keys),
    ("/ui/audit-log", |texts| texts.audit_log),
];

/// What the templates show around a page.
pub struct PageFrame {
    /// The texts.
    pub t: &'static FrameTexts,
    /// The language.
    pub language: Language,
    /// The title of the page.
    pub title: String,
    /// Whether the search box is there. The page of the search has its own.
    pub has_search: bool,
    /// The navigation.
    pub navigation: Vec<NavigationItem>,
    /// Who is signed in: the name of the key, and the role in words. `None` if nobody is.
    pub signed_in: Option<(String, &'static str)>,
    /// Whether the visitor needs no key.
    pub needs_no_key: bool,
    /// The token that every form contains.
    pub form_token: String,
    /// Links to this page in the other languages: the tag, the name, and the address.
    pub languages: Vec<LanguageLink>,
    /// What the stream of events watches, if the page updates itself.
    pub live: Option<String>,
    /// What was done, if that is to be said.
    pub notice: Option<String>,
    /// The address of the stylesheet.
    pub stylesheet: String,
    /// The address of the script.
    pub script: String,
    /// The address of the icon.
    pub icon: String,
}

/// An entry of the navigation.
pub struct NavigationItem {
    /// The address.
    pub href: &'static str,
    /// The text.
    pub text: &'static str,
    /// Whether this is the page that is open.
    pub is_current: bool,
}

/// A link to the page in another language.
pub struct LanguageLink {
    /// The tag of the language.
    pub tag: &'static str,
    /// The name of the language, in the language.
    pub name: &'static str,
    /// The address.
    pub href: String,
}

impl Visit {
    /// The frame of a page with this title.
    pub fn frame(&self, title: impl Into<String>) -> PageFrame {
        let mut frame = PageFrame::new(self, title.into());
        if let Some(done) = self.parameter("done") {
            frame.notify_done(&done);
        }
        frame
    }
}

impl PageFrame {
    fn new(visit: &Visit, title: String) -> Self {
        let texts = FrameTexts::of(visit.language);
        let path = visit.uri.path();
        let items = NAVIGATION.iter().filter(|(href, _)| may_open(visit, href));
        let items = items.map(|(href, text)| NavigationItem {
            href,
            text: text(texts),
            is_current: path == *href,
        });
        let caller = visit.caller.as_ref().filter(|_| visit.session.is_some());
        let signed_in = caller.map(|caller| {
            let name = caller.name.as_ref().map(ToString::to_string);
            (name.unwrap_or_default(), role_in_words(texts, caller.role))
        });
        let back = (visit.uri.path_and_query()).map_or("/ui/", |back| back.as_str());
        Self {
            t: texts,
            language: visit.language,
            title,
            has_search: true,
            navigation: items.collect(),
            needs_no_key: signed_in.is_none() && visit.caller.is_some(),
            signed_in,
            form_token: visit.form_token.clone(),
            languages: language_links(visit.language, back),
            live: None,
            notice: None,
            stylesheet: assets::address("page.css"),
            script: assets::address("page.js"),
            icon: assets::address("icon.svg"),
        }
    }

    /// The same frame of a page that updates itself when what `subject` names has changed ([`super::live`]).
    #[must_use]
    pub fn with_live(mut self, subject: &str) -> Self {
        self.live = Some(format!("/ui/events?of={}", encoded(subject)));
        self
    }

    /// The same frame of a page that answers a form, and is the page at this path: what leads back leads there.
    #[must_use]
    pub fn at(mut self, path: &str) -> Self {
        self.languages = language_links(self.language, path);
        self
    }

    /// Says above the page that something was done.
    pub fn notify(&mut self, text: &str) {
        self.notice = Some(text.to_string());
    }

    /// Says that something was done, by the code in the address that a form leads to. An unknown code says nothing.
    pub fn notify_done(&mut self, code: &str) {
        if let Some(text) = super::texts::notification::done(self.language, code) {
            self.notify(text);
        }
        let others = [
            bulk::done,
            destinations::done,
            endpoints::done,
            api_keys::done,
        ];
        if let Some(text) = others.iter().find_map(|done| done(self.language, code)) {
            self.notify(text);
        }
    }
}

/// Links to a page in the other languages.
fn language_links(language: Language, back: &str) -> Vec<LanguageLink> {
    let others = Language::ALL.into_iter().filter(|other| *other != language);
    let links = others.map(|other| LanguageLink {
        tag: other.html_tag(),
        name: other.own_name(),
        href: format!("/ui/language?to={}&back={}", other.tag(), encoded(back)),
    });
    links.collect()
}

/// Whether the visitor may open a page of the navigation.
fn may_open(visit: &Visit, path: &str) -> bool {
    match access_to(&Method::GET, path) {
        Access::Open => true,
        Access::Needs(permission) => visit.may(permission),
    }
}

/// A role in words.
pub fn role_in_words(texts: &'static FrameTexts, role: Role) -> &'static str {
    match role {
        Role::Producer => texts.role_producer,
        Role::Support => texts.role_support,
        Role::Operator => texts.role_operator,
    }
}
