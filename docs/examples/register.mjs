// Registers a notification, in Node.js 18 or newer without packages.
//
// RINGBACK_API_KEY=rbk_... node register.mjs https://shop.example/notify order-1001 8.88
import { setTimeout as sleep } from "node:timers/promises";

const server = process.env.RINGBACK_SERVER ?? "http://127.0.0.1:8400";
const key = process.env.RINGBACK_API_KEY;

/** The HTTP status (0: no answer came), and the notification or the problem. */
async function register(notification) {
  const headers = { "content-type": "application/json" };
  if (key) headers.authorization = `Bearer ${key}`;
  try {
    const answer = await fetch(`${server}/v1/notifications`, {
      method: "POST",
      headers,
      body: JSON.stringify(notification),
      signal: AbortSignal.timeout(10_000),
    });
    return [answer.status, await answer.json()];
  } catch (broken) {
    return [0, { detail: String(broken) }];
  }
}

const [url, order, amount] = process.argv.slice(2);
const notification = { topic: "payment.succeeded", id: order, url, body: { order, amount } };
let status, answer;
// Sent again until it is certain: the same registration is never delivered twice.
for (let attempt = 0; attempt < 5; attempt++) {
  [status, answer] = await register(notification);
  if (![0, 429, 503].includes(status)) break;
  await sleep(1000); // It may have been kept or not.
}
if (status === 200 || status === 201) {
  console.log(`registered ${order}: ${status} ${answer.state}`); // It is kept, and will be delivered.
} else {
  console.error(`not registered: ${status} ${answer.type ?? ""} ${answer.detail ?? ""}`);
  process.exitCode = 1;
}
