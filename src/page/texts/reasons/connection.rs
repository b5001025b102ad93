//! The reasons of attempts that got no answer, in Chinese.

use super::ChineseReason;
use crate::domain::attempt_reason::{
    AddressKind, AwaitedStep, ConnectionReason, Http2Reason, ProxyFault, ProxyReason, ProxyRefusal,
    SocksRefusal, UnsentReason,
};

fn plain(text: &'static str) -> ChineseReason<'static> {
    (text.to_string(), "")
}

fn with<'a>(text: &str, foreign: &'a str) -> ChineseReason<'a> {
    (text.to_string(), foreign)
}

pub(super) fn of_connection(reason: &ConnectionReason) -> ChineseReason<'_> {
    match reason {
        ConnectionReason::Refused => {
            plain("无法建立连接：连接被拒绝；该端口没有服务在监听，或被防火墙拒绝")
        }
        ConnectionReason::ResetAtOpening => plain("无法建立连接：建立过程中连接被重置"),
        ConnectionReason::Unreachable => plain("无法建立连接：从本网络无法到达该地址"),
        ConnectionReason::AddressSilent => plain("无法建立连接：该地址无响应"),
        ConnectionReason::NotOpened { error } => with("无法建立连接", error),
        ConnectionReason::NameUnknown { error } => with("域名无法解析", error),
        ConnectionReason::NoAddress => plain("该域名没有地址"),
        ConnectionReason::InternalAddress { address, kind } => {
            let kind = of_kind(*kind);
            (
                format!("地址 {address} 为{kind}，且不在允许的目标范围内"),
                "",
            )
        }
        ConnectionReason::PlainHttp { address } => {
            (format!("不允许以明文 http 访问公网地址 {address}"), "")
        }
        ConnectionReason::Reset => plain("应答完成前，商户重置了连接"),
        ConnectionReason::Closed => plain("应答完成前，连接被关闭"),
        ConnectionReason::Unconfirmed => plain("连接中断：商户不再确认收到的数据"),
        ConnectionReason::Broke { error } => with("连接中断", error),
        ConnectionReason::ClosedAfterKeeping => {
            plain("连接复用自之前的请求，商户在开始应答前将其关闭；商户可能已读到该请求")
        }
        ConnectionReason::EndedBeforeRequest => {
            plain("请求发出前，商户关闭了连接，或在未收到请求时就发送了应答")
        }
        ConnectionReason::HeadTooLarge => plain("应答头超过 64 KiB，或超过 100 个"),
        ConnectionReason::TooManyBytes => {
            plain("商户发送的数据过多：应答内容之前上限 256 KiB，应答内容上限 1 MiB")
        }
        ConnectionReason::NotHttp { error } => with("应答不是 HTTP", error),
        ConnectionReason::BodyNotHttp { error } => with("应答内容不符合 HTTP", error),
        ConnectionReason::TimedOutWhile { limit, awaited } => {
            let awaited = of_step(awaited);
            (
                format!("{limit} 内未收到完整应答；超时发生在{awaited}时"),
                "",
            )
        }
        ConnectionReason::TimedOut { limit } => (format!("{limit} 内未收到完整应答"), ""),
        ConnectionReason::NotOpenedWhile { limit, awaited } => {
            let awaited = of_step(awaited);
            (format!("{limit} 内未能建立连接；超时发生在{awaited}时"), "")
        }
        ConnectionReason::NotOpenedInTime { limit } => (format!("{limit} 内未能建立连接"), ""),
    }
}

fn of_step(awaited: &AwaitedStep) -> String {
    match awaited {
        AwaitedStep::Dns => "解析域名".to_string(),
        AwaitedStep::Connect => "建立连接".to_string(),
        AwaitedStep::Tls => "TLS 握手".to_string(),
        AwaitedStep::FirstByte => "等待应答".to_string(),
        AwaitedStep::Body => "读取应答内容".to_string(),
        AwaitedStep::Http2Settings => "等待商户的 HTTP/2 设置".to_string(),
        AwaitedStep::OtherOpens => "等待另一请求建立连接".to_string(),
        AwaitedStep::FreePlace { least } => {
            format!("等待连接上的空位（商户允许每个连接同时 {least} 个请求）")
        }
    }
}

fn of_kind(kind: AddressKind) -> &'static str {
    match kind {
        AddressKind::Unspecified => "未指定地址",
        AddressKind::Private => "内网地址",
        AddressKind::Shared => "运营商共享地址（NAT）",
        AddressKind::Loopback => "回环地址",
        AddressKind::LinkLocal => "链路本地地址",
        AddressKind::Platform => "云平台地址",
        AddressKind::Protocols => "协议保留地址",
        AddressKind::Documentation => "文档示例地址",
        AddressKind::Relay => "6to4 中继地址",
        AddressKind::Benchmarks => "性能测试地址",
        AddressKind::Multicast => "组播地址",
        AddressKind::Reserved => "保留地址",
        AddressKind::Teredo => "Teredo 隧道地址",
        AddressKind::UniqueLocal => "唯一本地地址",
        AddressKind::SiteLocal => "站点本地地址",
        AddressKind::NotGlobal => "非全球地址",
    }
}

pub(super) fn of_http2(reason: &Http2Reason) -> ChineseReason<'_> {
    match reason {
        Http2Reason::LeftWith { code } => (format!("商户以错误结束了 HTTP/2 连接（{code}）"), ""),
        Http2Reason::ClosedBetween => plain(
            "多个请求共用该连接，商户在开始应答前将其关闭，且未说明已读到哪些请求（没有 GOAWAY）；可能已读到该请求",
        ),
        Http2Reason::Http1 => plain(
            "请求发出前商户就以 HTTP/1.1 应答，说明此处不支持 HTTP/2；请将端点的 HTTP 版本设为 1.1",
        ),
        Http2Reason::NotHttp2 => {
            plain("请求发出前，商户发送了非 HTTP/2 的内容；该端口可能使用其他协议")
        }
        Http2Reason::Silent => {
            plain("请求发出前，商户未发送任何 HTTP/2 内容就关闭了连接；可能只支持 HTTP/1.1")
        }
        Http2Reason::NoCalls => plain(
            "商户的 HTTP/2 连接不允许任何请求（SETTINGS_MAX_CONCURRENT_STREAMS 为 0），未发送任何内容",
        ),
        Http2Reason::TooManyFrames => plain("商户发送了过多与应答无关的 HTTP/2 帧，连接已被关闭"),
        Http2Reason::NotSendable { error } => with("请求无法通过 HTTP/2 发送", error),
        Http2Reason::CallRefused => {
            plain("商户多次未处理就拒绝了请求（REFUSED_STREAM），可能过载或正在重启")
        }
        Http2Reason::Http1Required => plain(
            "商户仅接受以 HTTP/1.1 发送该请求（HTTP_1_1_REQUIRED）；请将端点的 HTTP 版本设为 1.1",
        ),
        Http2Reason::BrokenOff { code } => (format!("应答完成前，商户中断了请求（{code}）"), ""),
        Http2Reason::BadAnswer => plain("应答违反 HTTP/2 规则，或应答头超过 64 KiB"),
        Http2Reason::TooMuch => plain("商户发送的应答头过大，或 HTTP/2 帧过多，连接已被关闭"),
        Http2Reason::BrokeRules { code } => (format!("商户违反了 HTTP/2 规则（{code}）"), ""),
    }
}

pub(super) fn of_proxy(reason: &ProxyReason) -> ChineseReason<'_> {
    match reason {
        ProxyReason::Refused { why } => {
            (format!("无法通过出口代理建立连接：{}", of_refusal(why)), "")
        }
        ProxyReason::Failed { fault } => of_fault(fault),
        ProxyReason::TooEarly { address } => (
            format!("请求发出前就收到了数据，来自商户，或来自代理对 CONNECT {address} 的应答之后"),
            "",
        ),
    }
}

fn of_refusal(why: &ProxyRefusal) -> String {
    match why {
        ProxyRefusal::NoAddress => "没有可用地址".to_string(),
        ProxyRefusal::NotInTime { address } => format!("代理未能及时连接 {address}"),
        ProxyRefusal::Closed { address } => {
            format!("请求连接 {address} 时，代理关闭了连接，可能无法到达商户")
        }
        ProxyRefusal::Forbidden { status, address } => {
            format!("代理不允许连接该地址和端口（对 CONNECT {address} 应答 {status}）")
        }
        ProxyRefusal::Status { status, address } => {
            format!("代理对 CONNECT {address} 应答 {status}，可能无法到达商户")
        }
        ProxyRefusal::Socks {
            why,
            reply,
            address,
        } => format!("{}（对 {address} 的 SOCKS 应答码 {reply}）", of_socks(why)),
    }
}

fn of_socks(why: &SocksRefusal) -> &'static str {
    match why {
        SocksRefusal::Forbidden => "代理不允许连接该地址和端口",
        SocksRefusal::NoNetwork => "代理称网络不可达",
        SocksRefusal::NoHost => "代理称主机不可达",
        SocksRefusal::Refused => "代理称连接被拒绝；该端口没有服务在监听，或被防火墙拒绝",
        SocksRefusal::Silent => "代理称主机未及时响应",
        SocksRefusal::OtherKind => "代理无法连接此类地址",
        SocksRefusal::Failed => "代理未能建立连接",
        SocksRefusal::Unknown => "代理返回未知错误",
    }
}

fn of_fault(fault: &ProxyFault) -> ChineseReason<'_> {
    match fault {
        ProxyFault::Closed => plain("出口代理在应答前关闭了连接"),
        ProxyFault::BrokeOff { error } => with("出口代理中断了连接", error),
        ProxyFault::HeadersTooLong => plain("出口代理的应答头超过 16 KiB"),
        ProxyFault::NotHttp => plain("出口代理未以 HTTP/1.1 应答，可能不是 HTTP 代理"),
        ProxyFault::HttpWrongPassword => plain("出口代理不接受 --proxy 的用户名和密码（407）"),
        ProxyFault::HttpPasswordNeeded => {
            plain("出口代理要求用户名和密码，而 --proxy 未配置（407）")
        }
        ProxyFault::NotSocks => plain("出口代理不支持 SOCKS 5"),
        ProxyFault::NoMethod => plain("出口代理既不接受密码，也不接受无密码的连接"),
        ProxyFault::PasswordNeeded => plain("出口代理要求用户名和密码，而 --proxy 未配置"),
        ProxyFault::WrongPassword => plain("出口代理不接受 --proxy 的用户名和密码"),
        ProxyFault::UnknownAddressKind => plain("出口代理返回了未知的地址类型"),
        ProxyFault::NotInTime => plain("出口代理未及时响应"),
        ProxyFault::NameUnknown { error } => with("出口代理的域名无法解析", error),
        ProxyFault::NoUsableAddress { error } => with("出口代理没有可用地址", error),
        ProxyFault::Unreachable { error } => with("无法连接出口代理", error),
    }
}

pub(super) fn of_unsent(reason: &UnsentReason) -> ChineseReason<'_> {
    match reason {
        UnsentReason::Stopped => plain("收到应答前服务器被停止"),
        UnsentReason::Lost => plain("进行本次投递的实例在记录结果前已终止；商户可能已收到该请求"),
        UnsentReason::UnreadableUrl => plain("无法读取回调地址"),
        UnsentReason::UnwritableRequest { error } => with("无法生成请求", error),
        UnsentReason::EndpointMadeAgain => {
            plain("未发送：登记该通知之后端点已删除并重新创建，现在可能归他人所有")
        }
        UnsentReason::LookUpsBusy => plain("其他域名的解析占用了全部时间"),
        UnsentReason::TooLate => plain("请求发出前时间已用完"),
        UnsentReason::UnusableKey { key, error } => {
            (format!("签名密钥 {key} 无法解密"), error.as_str())
        }
        UnsentReason::UnusableClientKey { error } => with("客户端证书的私钥无法解密", error),
        UnsentReason::BadAuthority { number, error } => {
            (format!("第 {number} 个 CA 证书无法使用"), error.as_str())
        }
        UnsentReason::BadClientCertificate { error } => with("该客户端证书无法使用", error),
        UnsentReason::BadClientKey => {
            plain("该私钥无法使用；应为 2048 至 4096 位的 RSA、P-256 或 P-384 的 ECDSA，或 Ed25519")
        }
        UnsentReason::OtherClientKey => plain("该私钥与客户端证书不匹配"),
        UnsentReason::NoTlsConfiguration => plain("未能生成 TLS 配置"),
    }
}
