// Receives notifications, in Node.js 18 or newer without packages.
//
// PORT=9400 STORE=received WEBHOOK_SECRET=whsec_... node receiver.mjs
import { createHmac, randomUUID, timingSafeEqual } from "node:crypto";
import { mkdirSync } from "node:fs";
import { link, open, unlink } from "node:fs/promises";
import { createServer } from "node:http";
import { join } from "node:path";

const LARGEST_BODY = 1 << 20;
const STORE = process.env.STORE ?? "received";
// Two, separated by a space, while the secret is being changed. White space at the ends does not count.
const SECRETS = (process.env.WEBHOOK_SECRET ?? "").match(/[^ \t\n\v\f\r]+/g) ?? [""];

/** Whether these bytes were signed with this secret, no more than 300 s away from now. */
function verify(id, timestamp, signatures, secret, body, now) {
  if (!/^[0-9]{1,12}$/.test(timestamp) || Math.abs(now - Number(timestamp)) > 300) return false;
  // At least 24 bytes in base64, and nothing else: a public key (whpk_...) is known to others. Buffer.from skips what is
  // not base64.
  if (!/^whsec_([A-Za-z0-9+/]{4}){8,}([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/.test(secret)) {
    throw new Error("not a signing secret");
  }
  const key = Buffer.from(secret.slice(6), "base64");
  const mac = createHmac("sha256", key).update(`${id}.${timestamp}.`).update(body).digest("base64");
  const expected = Buffer.from(`v1,${mac}`);
  // Several while a secret is being changed; one has to match.
  return signatures.split(" ").some((text) => {
    const given = Buffer.from(text);
    return given.length === expected.length && timingSafeEqual(given, expected);
  });
}

async function writeAndSync(path, flags, body) {
  const file = await open(path, flags);
  try {
    if (body !== undefined) await file.writeFile(body);
    await file.sync();
  } finally {
    await file.close();
  }
}

/** Keeps the body in a file named for the id, on disk at the end. False if it was there already. */
async function store(id, body) {
  const draft = join(STORE, `.${randomUUID()}`);
  try {
    await writeAndSync(draft, "wx", body);
    return await link(draft, join(STORE, id)).then(() => true, (error) => {
      if (error.code === "EEXIST") return false;
      throw error;
    });
  } finally {
    await unlink(draft);
    await writeAndSync(STORE, "r"); // the directory, for the new name in it
  }
}

async function judge(request) {
  const { "content-length": length = 0, "transfer-encoding": chunked } = request.headers;
  if (chunked || Number(length) > LARGEST_BODY) return [413, "too large, or of unknown length"];
  const chunks = []; // the raw bytes, before anything parses them
  for await (const chunk of request) chunks.push(chunk);
  const [body, now] = [Buffer.concat(chunks), Math.floor(Date.now() / 1000)];
  const [id, ...others] = ["id", "timestamp", "signature"].map((name) => request.headers[`webhook-${name}`] ?? "");
  const isSigned = SECRETS.some((secret) => verify(id, ...others, secret, body, now));
  // The id becomes a file name, so it may have no other characters.
  if (!/^[A-Za-z0-9_-]{1,64}$/.test(id) || !isSigned) return [401, "bad signature"];
  console.log((await store(id, body)) ? "stored" : "repeated", id);
  return [200, "success"]; // the work is done later, from what is stored
}

for (const secret of SECRETS) verify("", "0", "", secret, "", 0); // ends the program if it is no secret
mkdirSync(STORE, { recursive: true });
const server = createServer({ requestTimeout: 10_000 }, (request, response) => {
  const answer = ([status, text]) => response.writeHead(status, { "Content-Type": "text/plain" }).end(text);
  judge(request).then(answer, (error) => {
    console.error(error);
    answer([500, "error"]);
  });
});
server.listen(process.env.PORT ?? 9400, "127.0.0.1", () => console.log(`listening on 127.0.0.1:${server.address().port}`));
