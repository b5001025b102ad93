//! Why TLS with a receiver failed.

use crate::domain::sentence::sentences;

sentences!(
    /// Why TLS with a receiver failed.
    TlsReason {
        Closed = "the receiver closed the connection during the TLS handshake";
        Reset = "the receiver reset the connection during the TLS handshake";
        Broke { error: String } = "the connection broke during the TLS handshake: {error}";
        OtherAuthority = "the certificate is not signed by one of the endpoint's own authorities, the only ones that it trusts, or it is sent without its intermediate certificates";
        UnknownAuthority = "the certificate is signed by an authority that is not trusted: it is self-signed, of a private authority, or sent without its intermediate certificates";
        NoCertificate = "the receiver sent no certificate";
        NotTls = "the receiver did not answer with TLS; perhaps plain http or another protocol is spoken on this port";
        OldVersions = "the receiver speaks only versions of TLS that are older than 1.2";
        NothingInCommon { error: String } = "the receiver has no TLS parameters in common with Ringback ({error})";
        Misbehaved { error: String } = "the receiver broke the rules of TLS ({error})";
        OtherHostKnown { names: String, expected: String } = "the certificate is for {names}, not for {expected}";
        NamesNoHost { expected: String } = "the certificate names no host, so it is not for {expected}";
        OtherHost = "the certificate is for another host";
        ExpiredOn { day: String } = "the receiver's certificate, or one in its chain, expired on {day}";
        Expired = "the receiver's certificate, or one in its chain, has expired";
        NotValidBefore { day: String } = "the receiver's certificate, or one in its chain, is not valid before {day}";
        NotValidYet = "the receiver's certificate, or one in its chain, is not valid yet";
        Revoked = "the receiver's certificate, or one in its chain, was revoked";
        BadSignature = "the receiver's certificate, or one in its chain, has a wrong signature";
        Unreadable = "the receiver's certificate, or one in its chain, cannot be read";
        UnsupportedAlgorithm = "the receiver's certificate, or one in its chain, is signed with an algorithm that is not supported";
        NotForServers { error: String } = "the certificate cannot be used for a server ({error}); self-signed certificates often cannot";
        RefusedVersions = "the receiver refused TLS 1.2 and 1.3; it probably speaks only older versions";
        RefusedHandshake = "the receiver refused the TLS handshake: it accepts none of the versions and ciphers that were offered, or needs a client certificate";
        UnknownName = "the receiver does not know the host name for TLS (alert UnrecognisedName)";
        ClientCertificateRequired = "the receiver asks for a client certificate";
        ClientAuthorityUnknown = "the receiver does not trust the authority of the client certificate (alert UnknownCA)";
        ClientCertificateExpired = "the receiver says that the client certificate has expired (alert CertificateExpired)";
        ClientCertificateRefused { alert: String } = "the receiver does not accept the client certificate, or needs one (alert {alert})";
        Alert { alert: String } = "the receiver broke off TLS with the alert {alert}";
        Failed { error: String } = "TLS failed: {error}";
    }
);
