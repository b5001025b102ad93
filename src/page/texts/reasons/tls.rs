//! Why TLS failed, in Chinese.

use super::ChineseReason;
use crate::domain::attempt_reason::TlsReason;

pub(super) fn of_tls(reason: &TlsReason) -> ChineseReason<'_> {
    let plain = |text: &str| (text.to_string(), "");
    match reason {
        TlsReason::Closed => plain("TLS 握手过程中，商户关闭了连接"),
        TlsReason::Reset => plain("TLS 握手过程中，商户重置了连接"),
        TlsReason::Broke { error } => ("TLS 握手过程中连接中断".to_string(), error.as_str()),
        TlsReason::OtherAuthority => {
            plain("证书不是由端点自定义的 CA（唯一受信任的 CA）签发，或未附带中间证书")
        }
        TlsReason::UnknownAuthority => {
            plain("证书由不受信任的 CA 签发：自签名、私有 CA，或未附带中间证书")
        }
        TlsReason::NoCertificate => plain("商户未发送证书"),
        TlsReason::NotTls => plain("商户未以 TLS 应答；该端口可能使用明文 http 或其他协议"),
        TlsReason::OldVersions => plain("商户仅支持低于 1.2 的 TLS 版本"),
        TlsReason::NothingInCommon { error } => (
            format!("商户与 Ringback 没有共同支持的 TLS 参数（{error}）"),
            "",
        ),
        TlsReason::Misbehaved { error } => (format!("商户违反了 TLS 规则（{error}）"), ""),
        TlsReason::OtherHostKnown { names, expected } => (
            format!("证书适用于 {}，不适用于 {expected}", names_of(names)),
            "",
        ),
        TlsReason::NamesNoHost { expected } => {
            (format!("证书未包含任何主机名，因此不适用于 {expected}"), "")
        }
        TlsReason::OtherHost => plain("证书适用于其他主机"),
        TlsReason::ExpiredOn { day } => (format!("商户的证书或证书链中的证书已于 {day} 过期"), ""),
        TlsReason::Expired => plain("商户的证书或证书链中的证书已过期"),
        TlsReason::NotValidBefore { day } => {
            (format!("商户的证书或证书链中的证书自 {day} 起才生效"), "")
        }
        TlsReason::NotValidYet => plain("商户的证书或证书链中的证书尚未生效"),
        TlsReason::Revoked => plain("商户的证书或证书链中的证书已被吊销"),
        TlsReason::BadSignature => plain("商户的证书或证书链中的证书签名错误"),
        TlsReason::Unreadable => plain("商户的证书或证书链中的证书无法读取"),
        TlsReason::UnsupportedAlgorithm => {
            plain("商户的证书或证书链中的证书使用了不支持的签名算法")
        }
        TlsReason::NotForServers { error } => (
            "证书不能用于服务器，自签名证书常有此问题".to_string(),
            error.as_str(),
        ),
        TlsReason::RefusedVersions => plain("商户拒绝了 TLS 1.2 和 1.3，可能仅支持更旧的版本"),
        TlsReason::RefusedHandshake => {
            plain("商户拒绝了 TLS 握手：不接受所提供的任何版本和加密套件，或需要客户端证书")
        }
        TlsReason::UnknownName => plain("商户的 TLS 不识别该主机名（警报 UnrecognisedName）"),
        TlsReason::ClientCertificateRequired => plain("商户要求客户端证书"),
        TlsReason::ClientAuthorityUnknown => plain("商户不信任客户端证书的 CA（警报 UnknownCA）"),
        TlsReason::ClientCertificateExpired => {
            plain("商户称客户端证书已过期（警报 CertificateExpired）")
        }
        TlsReason::ClientCertificateRefused { alert } => (
            format!("商户不接受客户端证书，或需要客户端证书（警报 {alert}）"),
            "",
        ),
        TlsReason::Alert { alert } => (format!("商户以警报 {alert} 中断了 TLS"), ""),
        TlsReason::Failed { error } => ("TLS 失败".to_string(), error.as_str()),
    }
}

/// The names of a certificate: `a, b and c`, or `a, b, c and 2 more`.
fn names_of(names: &str) -> String {
    let Some((first, last)) = names.rsplit_once(" and ") else {
        return names.to_string();
    };
    let first = first.replace(", ", "、");
    match last.strip_suffix(" more") {
        Some(more) => format!("{first} 等（另有 {more} 个）"),
        None => format!("{first}、{last}"),
    }
}
