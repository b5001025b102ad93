//! The outcomes of attempts: in words, and what usually causes them.

use crate::domain::attempt::Outcome;

super::texts!(OutcomeTexts {
    acknowledged: "acknowledged", "商户已确认";
    wrong_answer: "wrong answer", "应答内容不符";
    http_status: "wrong HTTP status", "HTTP 状态码异常";
    timeout: "time-out", "超时";
    connect: "no connection", "无法建立连接";
    tls: "TLS failed", "TLS 握手失败";
    dns: "host name not resolved", "域名解析失败";
    blocked: "address not allowed", "目标地址被禁止";
    protocol: "connection broken", "连接中断";
    interrupted: "interrupted by us", "被我方中断";

    acknowledged_means: "The receiver answered as agreed.", "商户已按约定应答。";
    wrong_answer_means: "The status was 2xx, but the body was not the agreed one.", "状态码为 2xx，但应答内容与约定不符。";
    http_status_means: "The receiver answered with another status than agreed.", "商户返回了约定之外的 HTTP 状态码。";
    timeout_means: "There was no complete answer within the time limit.", "未在时限内收到完整应答。";
    connect_means: "No connection could be opened.", "无法与商户服务器建立连接。";
    tls_means: "The certificate or the TLS handshake failed.", "证书校验或 TLS 握手失败。";
    dns_means: "The host name has no address.", "域名无法解析到地址。";
    blocked_means: "The address may not be called; nothing was sent.", "该地址不允许访问，未发送任何内容。";
    protocol_means: "The connection broke, or the answer was not HTTP.", "连接中断，或应答不是 HTTP。";
    interrupted_means: "Our server stopped during the attempt. It is made again under the same number.", "投递过程中我方服务器停止，将以相同序号重新投递。";

    acknowledged_causes: "If the merchant knows nothing of it: another system may have answered (an old server, a test system, a page that answers 200 to everything). Give them the time, the webhook id and the address, so that they can search their logs.", "如商户称未收到：可能是其他系统作了应答（旧服务器、测试环境，或对任何请求都返回 200 的页面）。请将时间、Webhook ID 和地址提供给商户，以便其查日志。";
    wrong_answer_causes: "The code prints nothing, a login page, a byte order mark, a warning before the text, or nearly the right text (SUCCESS, ok, quotes). The bytes must be exactly the agreed ones.", "常见原因：程序没有输出内容；返回了登录页；内容前有 BOM；先输出了警告信息；或文本相近但不一致（SUCCESS、ok、带引号）。应答字节必须与约定完全一致。";
    http_status_causes: "404: wrong path. 401 or 403: a login or a firewall. 301 or 302: the registered URL is not the final one. 5xx: the merchant's program failed. 429 or 503: overloaded.", "404：路径错误；401、403：需要登录或被防火墙拦截；301、302：登记的地址并非最终地址；5xx：商户程序出错；429、503：商户系统过载。";
    timeout_causes: "The merchant's program works too long before it answers. It should store the notification, answer at once, and do the rest afterwards. It may have acted on it: ask before a replay.", "商户程序应答前处理时间过长。建议先保存通知并立即应答，再异步处理。商户可能已经入账，重放前请先确认。";
    timeout_unsent_causes: "Nothing was sent. The server is off or overloaded, a firewall drops calls, name servers are slow, or the port does not speak TLS.", "未发送任何内容。服务器已停止或过载、防火墙丢弃了请求、域名服务器响应缓慢，或该端口不支持 TLS。";
    connect_causes: "The server is stopped, the port in the URL is wrong, or a firewall refuses or drops calls.", "商户服务器已停止、地址中的端口错误，或防火墙拒绝、丢弃了请求。";
    tls_causes: "A certificate that has expired, is for another host, is self-signed or of a private authority, or lacks its intermediate certificates; TLS older than 1.2; or no TLS on this port.", "证书过期、证书域名不符、证书为自签名或由私有 CA 签发、缺少中间证书；TLS 版本低于 1.2；或该端口不支持 TLS。";
    dns_causes: "A typing error in the URL, an expired domain, or name servers that do not answer.", "地址拼写错误、域名过期，或域名服务器无响应。";
    blocked_causes: "The URL leads to an internal address, or is plain http. Correct the URL, or have an operator allow the address.", "地址指向内网，或使用了明文 http。请更正地址，或由运维人员放行。";
    protocol_causes: "The merchant's server or a proxy crashed or restarted while it answered. It may have acted on the notification.", "商户服务器或代理在应答过程中崩溃或重启。商户可能已经处理了该通知。";
    interrupted_causes: "Ours: a restart, a crash or a store that failed. The merchant may see the call twice, with the same webhook id.", "我方原因：重启、崩溃或存储故障。商户可能收到两次相同 Webhook ID 的通知。";

    matter_nobody: "nobody's matter", "无需处理";
    matter_merchant: "the merchant's matter", "商户侧问题";
    matter_url: "whoever registered the URL, or our operators", "地址登记方或我方运维";
    matter_ours: "our matter", "我方问题";
});

impl OutcomeTexts {
    /// An outcome in a word or two.
    pub fn short(&self, outcome: Outcome) -> &'static str {
        match outcome {
            Outcome::Acknowledged => self.acknowledged,
            Outcome::WrongAnswer => self.wrong_answer,
            Outcome::HttpStatus => self.http_status,
            Outcome::Timeout => self.timeout,
            Outcome::Connect => self.connect,
            Outcome::Tls => self.tls,
            Outcome::Dns => self.dns,
            Outcome::Blocked => self.blocked,
            Outcome::Protocol => self.protocol,
            Outcome::Interrupted => self.interrupted,
        }
    }

    /// An outcome in a sentence.
    pub fn meaning(&self, outcome: Outcome) -> &'static str {
        match outcome {
            Outcome::Acknowledged => self.acknowledged_means,
            Outcome::WrongAnswer => self.wrong_answer_means,
            Outcome::HttpStatus => self.http_status_means,
            Outcome::Timeout => self.timeout_means,
            Outcome::Connect => self.connect_means,
            Outcome::Tls => self.tls_means,
            Outcome::Dns => self.dns_means,
            Outcome::Blocked => self.blocked_means,
            Outcome::Protocol => self.protocol_means,
            Outcome::Interrupted => self.interrupted_means,
        }
    }

    /// What usually causes an outcome, and what to do. `is_unsent` says that the call ended before its request was sent.
    pub fn causes(&self, outcome: Outcome, is_unsent: bool) -> &'static str {
        match outcome {
            Outcome::Timeout if is_unsent => self.timeout_unsent_causes,
            Outcome::Acknowledged => self.acknowledged_causes,
            Outcome::WrongAnswer => self.wrong_answer_causes,
            Outcome::HttpStatus => self.http_status_causes,
            Outcome::Timeout => self.timeout_causes,
            Outcome::Connect => self.connect_causes,
            Outcome::Tls => self.tls_causes,
            Outcome::Dns => self.dns_causes,
            Outcome::Blocked => self.blocked_causes,
            Outcome::Protocol => self.protocol_causes,
            Outcome::Interrupted => self.interrupted_causes,
        }
    }

    /// Whose matter an outcome is.
    pub fn matter(&self, outcome: Outcome) -> &'static str {
        match outcome {
            Outcome::Acknowledged => self.matter_nobody,
            Outcome::WrongAnswer
            | Outcome::HttpStatus
            | Outcome::Timeout
            | Outcome::Connect
            | Outcome::Tls
            | Outcome::Dns
            | Outcome::Protocol => self.matter_merchant,
            Outcome::Blocked => self.matter_url,
            Outcome::Interrupted => self.matter_ours,
        }
    }
}
