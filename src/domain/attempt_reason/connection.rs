//! Why a call got no answer: the connection, and what prevented one.

use crate::domain::call_trace::Phase;
use crate::domain::sentence::{UnknownSentence, sentences};
use crate::domain::state::named;
use std::str::FromStr;

sentences!(
    /// Why a connection could not be opened, or broke.
    ConnectionReason {
        Refused = "no connection: it was refused; no server listens on this port, or a firewall refuses calls";
        ResetAtOpening = "no connection: it was reset while it was opened";
        Unreachable = "no connection: the address cannot be reached from this network";
        AddressSilent = "no connection: the address did not answer";
        NotOpened { error: String } = "no connection: {error}";
        NameUnknown { error: String } = "the host name cannot be resolved: {error}";
        NoAddress = "the host name has no address";
        InternalAddress { address: String, kind: AddressKind } = "the address {address} is {kind}, and no allowed destination contains it";
        PlainHttp { address: String } = "plain http to the public address {address} is not allowed";
        Reset = "the receiver reset the connection before the answer was complete";
        Closed = "the connection was closed before the answer was complete";
        Unconfirmed = "the connection broke: the receiver no longer confirmed what it was sent";
        Broke { error: String } = "the connection broke: {error}";
        ClosedAfterKeeping = "the connection was kept from an earlier call, and the receiver closed it before an answer began; it may have read the request";
        EndedBeforeRequest = "before the request was sent, the receiver closed the connection, or sent an answer although it was asked nothing";
        HeadTooLarge = "the head of the answer is longer than 64 KiB or has more than 100 headers";
        TooManyBytes = "the receiver sent too many bytes: the limit is 256 KiB before the body and 1 MiB for the body";
        NotHttp { error: String } = "the answer was not HTTP: {error}";
        BodyNotHttp { error: String } = "the body of the answer was not HTTP: {error}";
        TimedOutWhile { limit: String, awaited: AwaitedStep } = "no complete answer within {limit}; the time ran out while {awaited}";
        TimedOut { limit: String } = "no complete answer within {limit}";
        NotOpenedWhile { limit: String, awaited: AwaitedStep } = "no connection within {limit}; the time ran out while {awaited}";
        NotOpenedInTime { limit: String } = "no connection within {limit}";
    }
);

sentences!(
    /// What a call waited for when its time ran out.
    AwaitedStep {
        Dns = "the host name was resolved";
        Connect = "the connection was opened";
        Tls = "the TLS handshake was made";
        FirstByte = "the answer was awaited";
        Body = "the body of the answer was read";
        Http2Settings = "the HTTP/2 settings of the receiver were awaited";
        OtherOpens = "another call opened the connection";
        FreePlace { least: usize } = "a free place on a connection was awaited: the receiver allows {least} calls at a time on each";
    }
);

impl From<Phase> for AwaitedStep {
    fn from(phase: Phase) -> Self {
        match phase {
            Phase::Dns => Self::Dns,
            Phase::Connect => Self::Connect,
            Phase::Tls => Self::Tls,
            Phase::FirstByte => Self::FirstByte,
            Phase::Body => Self::Body,
        }
    }
}

sentences!(
    /// Why nothing was sent, or why it is not known what came back, although the receiver may be well.
    UnsentReason {
        Stopped = "the server was stopped before an answer came";
        Lost = "the instance that made this attempt ended before it recorded an outcome; the receiver may have received the call";
        UnreadableUrl = "the URL cannot be read";
        UnwritableRequest { error: String } = "the request cannot be built: {error}";
        EndpointMadeAgain = "nothing was sent: the endpoint was removed and made again after this notification was registered, and may belong to somebody else by now";
        LookUpsBusy = "the look-ups of other host names took all the time";
        TooLate = "the time ran out before the request was sent";
        UnusableKey { key: String, error: String } = "the signing key {key} cannot be opened: {error}";
        UnusableClientKey { error: String } = "the key of the client certificate cannot be opened: {error}";
        BadAuthority { number: usize, error: String } = "the authority {number} cannot be used: {error}";
        BadClientCertificate { error: String } = "this client certificate cannot be used: {error}";
        BadClientKey = "this private key cannot be used; it is RSA of 2048 to 4096 bits, ECDSA with P-256 or P-384, or Ed25519";
        OtherClientKey = "this private key does not belong to the client certificate";
        NoTlsConfiguration = "the TLS configuration was not made";
    }
);

/// What kind of address may not be called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressKind {
    /// 0.0.0.0/8, or `::`.
    Unspecified,
    /// Of a private network.
    Private,
    /// Of a provider's network behind NAT.
    Shared,
    /// Of the machine itself.
    Loopback,
    /// Of one network segment.
    LinkLocal,
    /// Of the platform of a cloud, and reached only from its machines.
    Platform,
    /// Assigned to protocols.
    Protocols,
    /// For examples in documents.
    Documentation,
    /// A relay of 6to4.
    Relay,
    /// For measurements of networks.
    Benchmarks,
    /// Of a group.
    Multicast,
    /// Not assigned.
    Reserved,
    /// A tunnel of Teredo.
    Teredo,
    /// Of a private network, in IPv6.
    UniqueLocal,
    /// Of a site, in IPv6.
    SiteLocal,
    /// Outside the global addresses of IPv6.
    NotGlobal,
}

named!(AddressKind {
    Unspecified = "unspecified",
    Private = "private",
    Shared = "shared (carrier NAT)",
    Loopback = "loopback",
    LinkLocal = "link-local",
    Platform = "an address of a cloud platform",
    Protocols = "reserved for protocols",
    Documentation = "for documentation",
    Relay = "a 6to4 relay",
    Benchmarks = "for benchmarks",
    Multicast = "multicast",
    Reserved = "reserved",
    Teredo = "a Teredo tunnel",
    UniqueLocal = "unique-local",
    SiteLocal = "site-local",
    NotGlobal = "not a global address",
});

impl FromStr for AddressKind {
    type Err = UnknownSentence;

    fn from_str(name: &str) -> Result<Self, UnknownSentence> {
        Self::from_name(name).ok_or(UnknownSentence)
    }
}

#[cfg(test)]
impl crate::domain::sentence::sample::Sample for AddressKind {
    fn forms() -> usize {
        Self::ALL.len()
    }

    fn sample(form: usize, _: &mut crate::domain::sentence::sample::Texts) -> Self {
        Self::ALL[form % Self::ALL.len()]
    }
}
