//! Why the proxy of a server gave no connection to a receiver.

use crate::domain::sentence::sentences;

sentences!(
    /// Why the proxy gave no connection.
    ProxyReason {
        Refused { why: ProxyRefusal } = "no connection through the proxy: it {why}";
        Failed { fault: ProxyFault } = "the proxy {fault}";
        TooEarly { address: String } = "before the request was sent, something was sent by the receiver, or by the proxy after its answer to CONNECT {address}";
    }
);

sentences!(
    /// Why the proxy did not connect to the receiver. It follows "the proxy".
    ProxyRefusal {
        NoAddress = "was given no address";
        NotInTime { address: String } = "did not connect to {address} in time";
        Closed { address: String } = "closed the connection when it was asked for {address}, probably because it cannot reach the receiver";
        Forbidden { status: u16, address: String } = "does not allow connections to this address and port (it answered {status} to CONNECT {address})";
        Status { status: u16, address: String } = "answered {status} to CONNECT {address}, probably because it cannot reach the receiver";
        Socks { why: SocksRefusal, reply: u16, address: String } = "{why} (SOCKS reply {reply} for {address})";
    }
);

sentences!(
    /// What the reply of a SOCKS proxy means.
    SocksRefusal {
        Forbidden = "does not allow connections to this address and port";
        NoNetwork = "says that the network cannot be reached";
        NoHost = "says that the host cannot be reached";
        Refused = "says that the connection was refused; no server listens on this port, or a firewall refuses calls";
        Silent = "says that the host did not answer in time";
        OtherKind = "cannot connect to addresses of this kind";
        Failed = "failed to make the connection";
        Unknown = "answered with an unknown error";
    }
);

sentences!(
    /// How the proxy itself fails. It follows "the proxy".
    ProxyFault {
        Closed = "closed the connection before it answered";
        BrokeOff { error: String } = "broke off: {error}";
        HeadersTooLong = "answered with more than 16 KiB of headers";
        NotHttp = "did not answer with HTTP/1.1; perhaps it is no HTTP proxy";
        HttpWrongPassword = "does not accept the user name and the password of --proxy (407)";
        HttpPasswordNeeded = "asks for a user name and a password, and --proxy has none (407)";
        NotSocks = "does not speak SOCKS 5";
        NoMethod = "accepts neither a password nor calls without one";
        PasswordNeeded = "asks for a user name and a password, and --proxy has none";
        WrongPassword = "does not accept the user name and the password of --proxy";
        UnknownAddressKind = "answered with an unknown kind of address";
        NotInTime = "did not answer in time";
        NameUnknown { error: String } = "cannot be resolved: {error}";
        NoUsableAddress { error: String } = "has no usable address: {error}";
        Unreachable { error: String } = "cannot be reached: {error}";
    }
);
