//! What the servers write beside an entry of the audit log.

use crate::domain::act::Act;
use crate::domain::audit_note::AuditNote;
use crate::domain::job_filter::JobFilter;
use crate::page::bulk::filters;
use crate::page::language::Language;
use crate::page::texts::bulk::BulkTexts;
use crate::page::texts::endpoint_fields::EndpointFieldTexts;
use crate::page::texts::frame::FrameTexts;

/// What else is known of an act, in words. `None` if a server of another version has written it otherwise, or if it was too
/// long and was cut.
pub fn in_words(act: &str, detail: &str, language: Language) -> Option<String> {
    let note: AuditNote = detail.parse().ok()?;
    let keys = |ids: &str| ids.replace(", key ", ", ");
    let names = |fields: &str| fields_in_words(fields, language);
    Some(match (language, note) {
        (
            _,
            AuditNote::Filtered {
                filter,
                matched,
                rate,
            },
        ) => filtered(act, &filter, (matched, &rate), language)?,
        (
            Language::English,
            note @ (AuditNote::FirstAttempt { .. }
            | AuditNote::JobMade { .. }
            | AuditNote::UnreadBefore
            | AuditNote::AddedRemoved { .. }
            | AuditNote::Added { .. }
            | AuditNote::Removed { .. }
            | AuditNote::RoleTopicsUntil { .. }
            | AuditNote::RoleTopics { .. }
            | AuditNote::RoleUntil { .. }
            | AuditNote::Role { .. }),
        ) => note.to_string(),
        (
            Language::English,
            AuditNote::ChangedAddedRemoved {
                fields,
                added,
                removed,
            },
        ) => {
            let (fields, added, removed) = (names(&fields), keys(&added), keys(&removed));
            format!("changed: {fields}; added keys: {added}; removed keys: {removed}")
        }
        (Language::English, AuditNote::ChangedAdded { fields, added }) => {
            format!("changed: {}; added keys: {}", names(&fields), keys(&added))
        }
        (Language::English, AuditNote::ChangedRemoved { fields, removed }) => {
            format!(
                "changed: {}; removed keys: {}",
                names(&fields),
                keys(&removed)
            )
        }
        (Language::English, AuditNote::Changed { fields }) => {
            format!("changed: {}", names(&fields))
        }
        (Language::Chinese, AuditNote::FirstAttempt { due }) => format!("首次投递时间 {due}"),
        (Language::Chinese, AuditNote::JobMade { job, rate }) => {
            format!("任务 {job}，每秒 {rate} 条")
        }
        (Language::Chinese, AuditNote::UnreadBefore) => "此前无法读取".to_string(),
        (
            Language::Chinese,
            AuditNote::ChangedAddedRemoved {
                fields,
                added,
                removed,
            },
        ) => {
            let (fields, added, removed) = (names(&fields), keys(&added), keys(&removed));
            format!("修改：{fields}；添加密钥 {added}；移除密钥 {removed}")
        }
        (Language::Chinese, AuditNote::ChangedAdded { fields, added }) => {
            format!("修改：{}；添加密钥 {}", names(&fields), keys(&added))
        }
        (Language::Chinese, AuditNote::ChangedRemoved { fields, removed }) => {
            format!("修改：{}；移除密钥 {}", names(&fields), keys(&removed))
        }
        (Language::Chinese, AuditNote::Changed { fields }) => format!("修改：{}", names(&fields)),
        (Language::Chinese, AuditNote::AddedRemoved { added, removed }) => {
            format!("添加密钥 {}；移除密钥 {}", keys(&added), keys(&removed))
        }
        (Language::Chinese, AuditNote::Added { added }) => format!("添加密钥 {}", keys(&added)),
        (Language::Chinese, AuditNote::Removed { removed }) => {
            format!("移除密钥 {}", keys(&removed))
        }
        (
            Language::Chinese,
            AuditNote::RoleTopicsUntil {
                role,
                topics,
                until,
            },
        ) => {
            format!("角色 {role}，主题 {topics}，有效期至 {until}")
        }
        (Language::Chinese, AuditNote::RoleTopics { role, topics }) => {
            format!("角色 {role}，主题 {topics}")
        }
        (Language::Chinese, AuditNote::RoleUntil { role, until }) => {
            format!("角色 {role}，有效期至 {until}")
        }
        (Language::Chinese, AuditNote::Role { role }) => format!("角色 {role}"),
    })
}

/// A job over what passes a filter: the parts of the filter, how many, and how fast.
fn filtered(
    act: &str,
    filter: &str,
    (matched, rate): (u64, &str),
    language: Language,
) -> Option<String> {
    let filter = JobFilter::from_stored(filter)?;
    let is_of_dead = Act::from_name(act) == Some(Act::ReplayFiltered);
    let b = BulkTexts::of(language);
    let colon = FrameTexts::of(language).colon;
    let parts = filters::in_words(&filter, is_of_dead, language).into_iter();
    let mut parts: Vec<String> = parts
        .map(|(label, value)| format!("{label}{colon}{value}"))
        .collect();
    if parts.is_empty() {
        let all = if is_of_dead {
            b.all_dead
        } else {
            b.all_pending
        };
        parts.push(all.to_string());
    }
    Some(match language {
        Language::English => {
            let parts = parts.join("; ");
            format!("{parts}; {matched} match, {rate} per second")
        }
        Language::Chinese => {
            let parts = parts.join("；");
            format!("{parts}；共 {matched} 条，每秒 {rate} 条")
        }
    })
}

/// The settings of an endpoint that were changed, by the names that the page has for them.
fn fields_in_words(fields: &str, language: Language) -> String {
    let t = EndpointFieldTexts::of(language);
    let names = fields.split(", ").map(|name| t.changed(name));
    let separator = match language {
        Language::English => ", ",
        Language::Chinese => "、",
    };
    names.collect::<Vec<_>>().join(separator)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_done_is_said_in_words() {
        let check = |act: Act, detail: &str, language, expected: Option<&str>| {
            let words = in_words(act.as_str(), detail, language);
            assert_eq!(words.as_deref(), expected, "{detail}");
        };
        use Language::{Chinese, English};
        let filtered =
            r#"filter {"topic":"paid","cause":"window_closed"}, 12 match, 50 per second"#;
        check(
            Act::ReplayFiltered,
            filtered,
            English,
            Some(
                "Topic: paid; Cause (of dead ones): the time window of the ladder has closed; 12 match, 50 per second",
            ),
        );
        check(
            Act::ReplayFiltered,
            filtered,
            Chinese,
            Some("主题（topic）：paid；死信原因：超出重试时间窗口；共 12 条，每秒 50 条"),
        );
        let all = "filter {}, 3 match, 50 per second";
        check(
            Act::CancelFiltered,
            all,
            Chinese,
            Some("全部待投递通知；共 3 条，每秒 50 条"),
        );
        check(
            Act::ChangeEndpoint,
            "changed: url, after_outage_rate, keys; added: key key_a, key key_b",
            Chinese,
            Some("修改：回调地址、故障恢复后每秒补发数、密钥；添加密钥 key_a, key_b"),
        );
        check(
            Act::AddApiKey,
            "role producer, topics a b, until 2026-11-20T08:30:00.000Z",
            Chinese,
            Some("角色 producer，主题 a b，有效期至 2026-11-20T08:30:00.000Z"),
        );
        check(Act::AddApiKey, "of a later version", Chinese, None);
        check(
            Act::ReplayFiltered,
            r#"filter {"later":1}, 3 match, 50 per second"#,
            Chinese,
            None,
        );
    }
}
