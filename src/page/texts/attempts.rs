//! The texts of an attempt.

use crate::domain::call_trace::Phase;

super::texts!(AttemptTexts {
    due: "Due", "应投递时间";
    started: "Started", "开始时间";
    took: "Took", "耗时";
    late: "late by", "延迟";
    deferred: "Deferred", "推迟";
    deferred_for: "for", "时长";
    address: "Address", "目标地址";
    connection: "Connection", "连接";
    new: "new", "新建";
    kept: "kept from an earlier call", "复用";
    tls: "TLS", "TLS 版本";
    http: "HTTP", "HTTP 版本";
    endpoint_version: "Version of the endpoint", "端点配置版本";
    key_ids: "Signed with", "签名密钥";
    retry_after: "Retry-After", "Retry-After";
    unusable: "cannot be used", "无法使用";
    phases: "Where the time went", "各阶段耗时";
    dns: "name lookup", "域名解析";
    connect: "connecting", "建立连接";
    handshake: "TLS handshake", "TLS 握手";
    first_byte: "waiting for the answer", "等待应答";
    body: "reading the answer", "读取应答";
    answer: "What came back", "应答内容";
    empty: "an empty body", "应答内容为空";
    first_bytes: "first bytes", "前若干字节";
    in_hex: "In hexadecimal", "十六进制";
    rule: "Judged by", "判定规则";
    usual_causes: "Usual causes, and what to do", "常见原因与处理建议";
});

impl AttemptTexts {
    /// The name of a phase.
    pub fn phase(&self, phase: Phase) -> &'static str {
        match phase {
            Phase::Dns => self.dns,
            Phase::Connect => self.connect,
            Phase::Tls => self.handshake,
            Phase::FirstByte => self.first_byte,
            Phase::Body => self.body,
        }
    }
}
