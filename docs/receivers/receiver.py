"""Receives notifications, in Python 3.9 or newer with its standard library.
PORT=9400 STORE=received WEBHOOK_SECRET=whsec_... python3 receiver.py
"""
import base64, hmac, os, re, sys, tempfile, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

LARGEST_BODY = 1 << 20
STORE = os.environ.get("STORE", "received")
# Two, separated by a space, while the secret is being changed. White space at the ends does not count.
SECRETS = re.findall(r"\S+", os.environ.get("WEBHOOK_SECRET", ""), re.ASCII) or sys.exit("set WEBHOOK_SECRET")


def verify(webhook_id, timestamp, signatures, secret, body, now):
    """Whether these bytes were signed with this secret, no more than 300 s away from now."""
    if not re.fullmatch("[0-9]{1,12}", timestamp) or abs(now - int(timestamp)) > 300:
        return False
    # At least 24 bytes in base64, and nothing else: a public key (whpk_...) is known to others.
    if not re.fullmatch("whsec_([A-Za-z0-9+/]{4}){8,}([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?", secret):
        raise ValueError("not a signing secret")
    key = base64.b64decode(secret[6:])
    signed = f"{webhook_id}.{timestamp}.".encode() + body
    expected = b"v1," + base64.b64encode(hmac.digest(key, signed, "sha256"))
    # Several while a secret is being changed; one has to match.
    return any(hmac.compare_digest(expected, given.encode()) for given in signatures.split(" "))


def store(webhook_id, body):
    """Keeps the body in a file named for the id, on disk at the end. False if it was there already."""
    with tempfile.NamedTemporaryFile(dir=STORE, prefix=".") as file:
        file.write(body)
        file.flush()
        os.fsync(file.fileno())
        try:
            os.link(file.name, os.path.join(STORE, webhook_id))
            is_new = True
        except FileExistsError:
            is_new = False
    os.fsync(directory := os.open(STORE, os.O_RDONLY))
    os.close(directory)
    return is_new


def say(line):
    os.write(1, f"{line}\n".encode())  # one write, since the lines of several threads would mix in `print`


class Receiver(BaseHTTPRequestHandler):
    timeout = 10

    def is_signed(self, webhook_id, body):
        others = [self.headers.get(name, "") for name in ("Webhook-Timestamp", "Webhook-Signature")]
        return any(verify(webhook_id, *others, secret, body, int(time.time())) for secret in SECRETS)

    def judge(self):
        length = self.headers.get("Content-Length", "unknown" if "Transfer-Encoding" in self.headers else "0")
        if not re.fullmatch("[0-9]{1,9}", length) or int(length) > LARGEST_BODY:
            return 413, "too large, or of unknown length"
        body = self.rfile.read(int(length))  # the raw bytes, before anything parses them
        webhook_id = self.headers.get("Webhook-Id", "")
        # The id becomes a file name, so it may have no other characters.
        if not re.fullmatch("[A-Za-z0-9_-]{1,64}", webhook_id) or not self.is_signed(webhook_id, body):
            return 401, "bad signature"
        try:
            is_new = store(webhook_id, body)
        except OSError as error:
            self.log_error("cannot store %s: %s", webhook_id, error)
            return 500, "error"
        say(f"{'stored' if is_new else 'repeated'} {webhook_id}")
        return 200, "success"  # the work is done later, from what is stored

    def do_POST(self):
        status, text = self.judge()
        self.send_response(status)
        self.send_header("Content-Type", "text/plain")
        self.end_headers()
        self.wfile.write(text.encode())


def serve(receiver):
    port = os.environ.get("PORT", "9400")
    try:
        for secret in SECRETS:
            verify("", "0", "", secret, b"", 0)
        os.makedirs(STORE, exist_ok=True)
    except (OSError, ValueError) as error:
        sys.exit(f"cannot start: {error}")  # the secret, or the directory
    ThreadingHTTPServer.request_queue_size = 128  # with the default of 5, some of 16 calls at a time are reset
    try:
        server = ThreadingHTTPServer(("127.0.0.1", int(port)), receiver)
    except (OSError, OverflowError, ValueError) as error:
        sys.exit(f"cannot listen on 127.0.0.1:{port}: {error}")
    say(f"listening on 127.0.0.1:{server.server_port}")
    server.serve_forever()


if __name__ == "__main__":
    serve(Receiver)
