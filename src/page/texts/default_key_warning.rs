//! Why the default keys sign nothing on a server.

use crate::domain::default_keys::DefaultKeyWarning;
use crate::page::language::Language;

/// The warning in the language of the visitor.
pub fn in_words(warning: &DefaultKeyWarning, language: Language) -> String {
    match (language, warning) {
        (Language::English, warning) => warning.to_string(),
        (Language::Chinese, DefaultKeyWarning::OtherSecret { fingerprint }) => format!(
            "其他服务器使用另一默认密钥签名（指纹 {fingerprint}），因此本服务器不发送任何需由自身密钥签名的请求。请以其他服务器的 --signing-secret 启动本服务器。"
        ),
        (Language::Chinese, DefaultKeyWarning::Unreadable { key, why }) => format!(
            "本服务器无法读取默认密钥 {key}（{why}），因此不发送任何需由默认密钥签名的请求。如该密钥由其他版本写入，请升级本服务器；否则请添加另一默认密钥并移除该密钥。"
        ),
        (Language::Chinese, DefaultKeyWarning::AllUnreadable { why }) => {
            format!("本服务器无法读取默认密钥（{why}），因此不发送任何需由其签名的请求。")
        }
        (Language::Chinese, DefaultKeyWarning::Unusable { key, why }) => format!(
            "本服务器无法解密默认密钥 {key}（{why}），因此不发送任何需由默认密钥签名的请求。请以其他服务器的主密钥启动本服务器。"
        ),
    }
}
