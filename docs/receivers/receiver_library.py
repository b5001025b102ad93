"""The receiver of receiver.py, where the library of Standard Webhooks verifies.

pip install standardwebhooks
PORT=9400 STORE=received WEBHOOK_SECRET=whsec_... python3 receiver_library.py
"""
import receiver
from standardwebhooks import Webhook


def verify(secret, body, headers):
    try:
        # Without json_parse=False, the library refuses what is not JSON, after it has verified it.
        Webhook(secret).verify(body, headers, json_parse=False)
        return True
    except Exception:
        # WebhookVerificationError, and errors of other types: for a signature without a comma, and for
        # every body that is not UTF-8. This library (1.1.0) cannot verify such a body.
        return False


class LibraryReceiver(receiver.Receiver):
    def is_signed(self, webhook_id, body):
        return any(verify(secret, body, dict(self.headers)) for secret in receiver.SECRETS)


if __name__ == "__main__":
    receiver.serve(LibraryReceiver)
