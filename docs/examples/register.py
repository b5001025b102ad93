"""Registers a notification, in Python 3.9 or newer with its standard library.

RINGBACK_API_KEY=rbk_... python3 register.py https://shop.example/notify order-1001 8.88
"""
import json, os, sys, time
from urllib import error, request

SERVER = os.environ.get("RINGBACK_SERVER", "http://127.0.0.1:8400")
KEY = os.environ.get("RINGBACK_API_KEY", "")


def register(notification):
    """The HTTP status, and the notification or the problem. Status 0: no answer came."""
    call = request.Request(f"{SERVER}/v1/notifications", json.dumps(notification).encode())
    call.add_header("Content-Type", "application/json")
    if KEY:
        call.add_header("Authorization", f"Bearer {KEY}")
    try:
        with request.urlopen(call, timeout=10) as answer:
            return answer.status, json.load(answer)
    except error.HTTPError as refused:
        return refused.code, json.load(refused)
    except OSError as broken:
        return 0, {"detail": str(broken)}


def main(url, order, amount):
    notification = {
        "topic": "payment.succeeded",
        "id": order,
        "url": url,
        "body": {"order": order, "amount": amount},
    }
    # Sent again until it is certain: the same registration is never delivered twice.
    for _ in range(5):
        status, answer = register(notification)
        if status in (200, 201):  # It is kept, and will be delivered.
            print(f"registered {order}: {status} {answer['state']}")
            return
        if status not in (0, 429, 503):
            break
        time.sleep(1)  # It may have been kept or not.
    sys.exit(f"not registered: {status} {answer.get('type', '')} {answer.get('detail', '')}")


main(*sys.argv[1:])
