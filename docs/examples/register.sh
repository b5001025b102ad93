#!/bin/sh
# Registers a notification, with curl.
#
# RINGBACK_API_KEY=rbk_... sh register.sh https://shop.example/notify order-1001 8.88
set -eu

server=${RINGBACK_SERVER:-http://127.0.0.1:8400}
url=$1 order=$2 amount=$3

# Sent again until it is certain: the same registration is never delivered twice.
for try in 1 2 3 4 5; do
  answer=$(curl --silent --show-error --max-time 10 --write-out '\n%{http_code}' "$server/v1/notifications" \
    ${RINGBACK_API_KEY:+--header "Authorization: Bearer $RINGBACK_API_KEY"} --header 'Content-Type: application/json' --data @- <<JSON
{ "topic": "payment.succeeded", "id": "$order", "url": "$url", "body": { "order": "$order", "amount": "$amount" } }
JSON
  ) || answer='no answer
000'
  status=${answer##*
}
  case $status in
    200 | 201) # It is kept, and will be delivered.
      echo "registered $order: $status"
      exit 0
      ;;
    000 | 429 | 503) sleep 1 ;; # It may have been kept or not.
    *) break ;;
  esac
done
echo "not registered: $answer" >&2
exit 1
