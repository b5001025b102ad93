//! The texts of the API keys.

use crate::page::language::Language;
use crate::service::BadApiKeyChange;

super::texts!(ApiKeyTexts {
    title: "API keys", "API Key";
    intro: "Who may use the API and this page. The keys themselves are not kept, so they cannot be shown again.", "管理可使用 API 与本页面的 Key。Key 本身不保存，无法再次查看。";
    none: "There is no API key, so this server accepts requests from its own machine alone. The first key must have the role operator and no end. As soon as there is one, every request needs a key.", "尚无 API Key，服务器只接受来自本机的请求。第一个 Key 的角色必须为 operator，且不设到期时间。创建后，所有请求都需要 Key。";
    name: "Name", "名称";
    role: "Role", "角色";
    topics: "Topics", "主题（topic）";
    all_topics: "all", "全部";
    made: "Made", "创建时间";
    by: "by", "创建人";
    expires: "Ends", "到期时间";
    never: "never", "永不到期";
    expired: "ended", "已到期";
    unreadable: "this server cannot read it; it permits nothing", "本服务器无法读取该 Key，其不具备任何权限";

    make: "Make a key", "创建 Key";
    name_hint: "1 to 48 of the characters A-Z a-z 0-9 _ . -; histories and the audit log show it", "1 至 48 个字符，只能使用 A-Z a-z 0-9 _ . -，操作历史和审计日志将显示该名称";
    topics_hint: "For the role producer alone: the topics it is bound to, with spaces between them. Empty: all.", "仅用于 producer 角色：限定的主题，以空格分隔，留空表示全部。";
    expires_hint: "90d (from now), or 2026-11-20 08:30 in UTC. Empty: never.", "如 90d（90 天后），或 2026-11-20 08:30（UTC）。留空表示永不到期。";
    bad_name: "A name is 1 to 48 of the characters A-Z a-z 0-9 _ . -", "名称由 1 至 48 个字符组成，只能使用 A-Z a-z 0-9 _ . -";
    bad_role: "Choose a role.", "请选择角色。";
    bad_topics: "A key is bound to 1 to 100 topics, each of 1 to 64 of the characters A-Z a-z 0-9 _ . -", "最多限定 100 个主题，每个主题由 1 至 64 个字符组成，只能使用 A-Z a-z 0-9 _ . -";
    topics_of_producer: "Only a key with the role producer is bound to topics.", "只有 producer 角色的 Key 可以限定主题。";
    bad_expires: "This is no duration like 90d and no time like 2026-11-20 08:30, or it is in the past.", "请输入时长（如 90d）或时间（如 2026-11-20 08:30），且不能早于当前时间。";

    revoke: "Revoke", "吊销";
    help_revoke: "It is refused from now on, and whoever is signed in with it is signed out.", "立即失效，使用该 Key 登录的用户将退出登录。";
    confirm: "Yes, revoke it", "确认吊销";
    not_confirmed: "Nothing was revoked: tick the box to confirm.", "未吊销：请先勾选确认。";

    name_taken: "There is an API key of this name; revoke it first, or choose another name.", "已存在同名 API Key，请先吊销或改用其他名称。";
    full: "There are as many API keys as there may be. Revoke those that are not used.", "API Key 数量已达上限，请吊销不再使用的 Key。";
    no_operator: "As soon as there is any API key, every request needs one. So the first one must have the role operator and no end, unless the server has --api-key.", "一旦存在 API Key，所有请求都需要 Key。因此第一个 Key 的角色必须为 operator 且不设到期时间，除非服务器配置了 --api-key。";
    last_operator: "This is the last API key with the role operator that does not end, and there are others. Make another one first.", "这是最后一个永不到期的 operator Key，且还存在其他 Key。请先创建另一个。";
    missing: "There is no API key of this name.", "没有此名称的 API Key。";
    no_randomness: "No key could be made, because the operating system gives no random bytes.", "操作系统未能提供随机数，无法创建 Key。";

    made_title: "An API key was made", "已创建 API Key";
    made_lead: "This is the key. It is shown this once and nowhere else: copy it now.", "以下为 API Key，仅显示这一次，请立即复制。";
    made_first: "This is the first key. From now on, requests without a key are refused, and this page asks for a sign-in with one: copy it before you leave.", "这是第一个 API Key。从现在起，不带 Key 的请求将被拒绝，本页面也需使用 Key 登录：离开前请先复制。";
    key: "API key", "API Key";
    back: "To the API keys", "返回 API Key 列表";
    done_revoked: "The key is revoked.", "API Key 已吊销。";
});

impl ApiKeyTexts {
    /// Why the keys were not changed.
    pub fn refusal(&self, bad: &BadApiKeyChange) -> &'static str {
        match bad {
            BadApiKeyChange::NameTaken => self.name_taken,
            BadApiKeyChange::Full => self.full,
            BadApiKeyChange::NoOperator => self.no_operator,
            BadApiKeyChange::LastOperator => self.last_operator,
            BadApiKeyChange::Missing => self.missing,
            BadApiKeyChange::NoRandomness(_) => self.no_randomness,
        }
    }
}

/// What was done, by the code in the address that a form leads to.
pub fn done(language: Language, code: &str) -> Option<&'static str> {
    (code == "key-revoked").then_some(ApiKeyTexts::of(language).done_revoked)
}
