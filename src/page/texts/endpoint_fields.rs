//! The texts of the settings of an endpoint.

super::texts!(EndpointFieldTexts {
    url: "URL", "回调地址";
    help_url: "Where its calls go", "请求发往的地址";
    ladder: "Ladder", "重试策略";
    help_ladder: "A name such as wechat, or a JSON object. It holds for notifications registered from now on.", "名称（如 wechat）或 JSON 对象，仅对之后登记的通知生效。";
    ack: "Expected answer", "应答规则";
    help_ack: "A name such as success, or a JSON object", "名称（如 success）或 JSON 对象";
    timeout: "Time limit of a call", "请求超时";
    help_timeout: "Such as 10s; at most that of the server", "如 10s，不超过服务器上限";
    concurrency: "Most calls at once", "最大并发数";
    help_concurrency: "A whole number from 1", "不小于 1 的整数";
    rate: "Calls per second", "每秒请求数";
    help_rate: "Empty: no limit", "留空则不限速";
    retry_after: "Follow Retry-After", "遵循 Retry-After";
    help_retry_after: "Whether a 429 or 503 may delay the next attempt", "429 或 503 应答是否可推迟下次投递";
    gone: "After a 410", "收到 410 后";
    help_gone: "What an answer 410 (gone) does", "商户应答 410 时的处理方式";
    after_outage_rate: "Sent per second after an outage", "故障恢复后每秒补发数";
    help_after_outage_rate: "Empty: each notification waits for its ladder", "留空则各通知按重试策略等待";
    user_agent: "User-Agent", "User-Agent";
    help_user_agent: "Empty: that of the server", "留空则使用服务器默认值";
    http: "HTTP", "HTTP 版本";
    help_http: "HTTP/2 needs https", "HTTP/2 需要 https";
    default_choice: "as the ladder or the server says", "按重试策略或服务器设置";
    yes: "yes", "是";
    no: "no", "否";
    park: "the notification ends", "该通知结束";
    hold: "the notification ends, and the endpoint is held", "该通知结束，并暂停该端点";
    headers: "Headers", "请求头";
    signature_headers: "Headers of the signature", "签名头";
    ca: "Own certificate authorities", "自定义 CA";
    client_certificate: "Client certificate", "客户端证书";
    client_key: "Key of the client certificate", "客户端证书私钥";
    metadata: "Metadata", "元数据";
    keys: "Signing keys", "密钥";
});

impl EndpointFieldTexts {
    /// The name of a field, and what helps to fill it in.
    pub fn field(&self, name: &str) -> (&'static str, &'static str) {
        match name {
            "url" => (self.url, self.help_url),
            "ladder" => (self.ladder, self.help_ladder),
            "ack" => (self.ack, self.help_ack),
            "timeout" => (self.timeout, self.help_timeout),
            "concurrency" => (self.concurrency, self.help_concurrency),
            "rate" => (self.rate, self.help_rate),
            "retry_after" => (self.retry_after, self.help_retry_after),
            "gone" => (self.gone, self.help_gone),
            "after_outage_rate" => (self.after_outage_rate, self.help_after_outage_rate),
            "user_agent" => (self.user_agent, self.help_user_agent),
            _ => (self.http, self.help_http),
        }
    }

    /// The name of a field that was changed. One of a later version is shown as it is.
    pub fn changed<'a>(&self, name: &'a str) -> &'a str {
        match name {
            "headers" => self.headers,
            "signature_headers" => self.signature_headers,
            "ca" => self.ca,
            "client_certificate" => self.client_certificate,
            "client_key" => self.client_key,
            "metadata" => self.metadata,
            "keys" => self.keys,
            "url" | "ladder" | "ack" | "timeout" | "concurrency" | "rate" | "retry_after"
            | "gone" | "after_outage_rate" | "user_agent" | "http" => self.field(name).0,
            other => other,
        }
    }

    /// A value that is chosen from a list; empty if the field is not one of these.
    pub fn choice(&self, value: &str) -> &'static str {
        match value {
            "" => self.default_choice,
            "true" => self.yes,
            "false" => self.no,
            "park" => self.park,
            "hold" => self.hold,
            "1.1" => "HTTP/1.1",
            "2" => "HTTP/2",
            _ => "",
        }
    }
}
