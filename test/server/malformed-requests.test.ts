import { connect } from "node:net";
import fc from "fast-check";
import { expect, test } from "vitest";
import { json } from "../support/json.ts";
import { closeToyServers, serveToy } from "../support/toy-server.ts";

closeToyServers();

const seed = 20_261_121;
const requestCount = 1000;
const bytesMax = 4096;
const answerTimeoutMs = 5000;

const valid = {
  "/v1/chat/completions": { messages: [{ role: "user", content: "hi" }], max_tokens: 4 },
  "/v1/completions": { prompt: "hi", max_tokens: 4 },
  "/v1/embeddings": { input: "hi" },
  "/tokenize": { prompt: "hi" },
  "/detokenize": { tokens: [104, 105] },
};
const paths = Object.keys(valid) as (keyof typeof valid)[];

/** Bytes to send, and why no server may accept them. */
interface Malformed {
  readonly why: string;
  readonly bytes: string;
}

function post(path: string, body: string, headers: Record<string, string> = {}): string {
  const lines = Object.entries({
    host: "localhost",
    "content-type": "application/json",
    "content-length": String(Buffer.byteLength(body)),
    connection: "close",
    ...headers,
  }).map(([name, value]) => `${name}: ${value}\r\n`);
  return `POST ${path} HTTP/1.1\r\n${lines.join("")}\r\n${body}`;
}

const path = fc.constantFrom(...paths);
const cut = fc.nat({ max: 1_000_000 });

const brokenJson = fc.tuple(path, cut).map(([where, at]): Malformed => {
  const text = JSON.stringify(valid[where]);
  return { why: "JSON cut short", bytes: post(where, text.slice(0, at % text.length)) };
});

const notJson = fc
  .tuple(path, fc.string({ unit: "binary", minLength: 1, maxLength: 60 }))
  .filter(([, text]) => !isJson(text))
  .map(([where, text]): Malformed => ({ why: "no JSON", bytes: post(where, text) }));

const notAnObject = fc
  .tuple(path, fc.oneof(fc.integer(), fc.string(), fc.boolean(), fc.array(fc.jsonValue())))
  .map(
    ([where, value]): Malformed => ({
      why: "JSON, but no object",
      bytes: post(where, JSON.stringify(value)),
    }),
  );

const wrongType = fc
  .tuple(path, cut, fc.constantFrom<unknown>({ a: 1 }, [[[]]], -7.5, true, [{}], ["a", 1]))
  .map(([where, at, value]): Malformed => {
    const fields = Object.keys(valid[where]);
    const field = fields[at % fields.length] ?? "";
    const body = JSON.stringify({ ...valid[where], [field]: value });
    return { why: `wrong type of ${field}`, bytes: post(where, body) };
  });

const unknownField = fc.tuple(path, fc.string({ minLength: 1 }), fc.jsonValue()).map(
  ([where, name, value]): Malformed => ({
    why: "unknown field",
    bytes: post(where, JSON.stringify({ ...valid[where], [`_${name}`]: value })),
  }),
);

const poisoned = fc.tuple(path, fc.constantFrom("__proto__", "constructor")).map(
  ([where, key]): Malformed => ({
    why: "prototype poisoning",
    bytes: post(where, `{"${key}": {"prototype": {"a": 1}}, "prompt": "hi"}`),
  }),
);

const nested = fc.tuple(path, fc.integer({ min: 100, max: 500 })).map(
  ([where, depth]): Malformed => ({
    why: "nested too deeply",
    bytes: post(where, `{"messages": ${"[".repeat(depth)}${"]".repeat(depth)}}`),
  }),
);

const huge = path.map(
  (where): Malformed => ({
    why: "body beyond the limit",
    bytes: post(where, JSON.stringify({ prompt: "x".repeat(bytesMax) })),
  }),
);

const hugeLength = path.map(
  (where): Malformed => ({
    why: "length beyond the limit",
    bytes: post(where, "{}", { "content-length": "99999999999" }),
  }),
);

const truncated = fc
  .tuple(path, fc.integer({ min: 1, max: 900 }))
  .map(([where, missing]): Malformed => {
    const body = JSON.stringify(valid[where]);
    const length = String(body.length + missing);
    return { why: "body cut short", bytes: post(where, body, { "content-length": length }) };
  });

const badLength = fc.tuple(path, fc.constantFrom("-1", "abc", "1e3", "1, 2", "0x10")).map(
  ([where, length]): Malformed => ({
    why: `content-length ${length}`,
    bytes: post(where, "{}", { "content-length": length }),
  }),
);

const badType = fc
  .tuple(path, fc.constantFrom("text/plain", "", "application/xml", "a", "multipart/form-data"))
  .map(
    ([where, type]): Malformed => ({
      why: `content-type ${type}`,
      bytes: post(where, JSON.stringify(valid[where]), { "content-type": type }),
    }),
  );

const badChunks = path.map(
  (where): Malformed => ({
    why: "no chunk length",
    bytes: post(where, "zz\r\n{}\r\n0\r\n\r\n", {
      "content-length": "",
      "transfer-encoding": "chunked",
    }).replace("content-length: \r\n", ""),
  }),
);

const badHeaders = fc.constantFrom("a b: c", ": x", "x\u0000y: z", "no colon", "h: a\u0000b").map(
  (line): Malformed => ({
    why: "bad header",
    bytes: `GET /health HTTP/1.1\r\nhost: a\r\n${line}\r\n\r\n`,
  }),
);

const longHeaders = fc.integer({ min: 20_000, max: 60_000 }).map(
  (length): Malformed => ({
    why: "headers too long",
    bytes: `GET /health HTTP/1.1\r\nhost: a\r\nx: ${"y".repeat(length)}\r\n\r\n`,
  }),
);

const badStart = fc
  .constantFrom(
    "GET /v1/models",
    "NONSENSE / HTTP/1.1\r\nhost: a\r\n\r\n",
    "GET / HTTP/9.9\r\n\r\n",
    "GET /v1/models/%zz HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n",
    "GET /nowhere HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n",
    "DELETE /v1/completions HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n",
    "GET /v1/completions HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n",
    "GET /health HTTP/1.1\r\nconnection: close\r\n\r\n",
    "CONNECT a:1 HTTP/1.1\r\nhost: a\r\n\r\n",
    "\u0016\u0003\u0001\u0002\u0000\u0001\u0000\u0001\r\n\r\n",
    "POST /v1/completions HTTP/1.1\r\nhost: a\r\nexpect: nonsense\r\nconnection: close\r\n\r\n",
  )
  .map((bytes): Malformed => ({ why: "bad start", bytes }));

const malformed = fc.oneof(
  brokenJson,
  notJson,
  notAnObject,
  wrongType,
  unknownField,
  poisoned,
  nested,
  huge,
  hugeLength,
  truncated,
  badLength,
  badType,
  badChunks,
  badHeaders,
  longHeaders,
  badStart,
);

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/** Sends bytes on a connection of their own, ends it, and returns what came back. */
function exchange(port: number, bytes: string): Promise<string> {
  return new Promise((resolve, reject) => {
    let answer = "";
    const socket = connect({ port, host: "127.0.0.1", allowHalfOpen: true });
    socket.setTimeout(answerTimeoutMs, () => {
      socket.destroy();
      reject(new Error("No answer in time"));
    });
    socket.on("data", (piece) => {
      answer += piece;
    });
    // The server may close before it has read everything: what it said counts.
    socket.on("error", () => resolve(answer));
    socket.on("end", () => {
      socket.destroy();
      resolve(answer);
    });
    socket.end(bytes);
  });
}

test(`${requestCount} malformed requests get a 4xx each, and the server lives (seed ${seed})`, async () => {
  const { server, model, post: send } = await serveToy({}, { requestBytesMax: bytesMax });
  const port = Number(new URL(server.url).port);
  const statuses = new Map<string, number>();
  for (const { why, bytes } of fc.sample(malformed, { seed, numRuns: requestCount })) {
    const answer = await exchange(port, bytes);
    const status = /^HTTP\/1\.1 (\d{3})/.exec(answer)?.[1] ?? "none";
    expect(`${status} ${why}`, `${bytes.slice(0, 400)}\n--\n${answer}`).toMatch(/^4\d\d /);
    const body = answer.slice(answer.indexOf("\r\n\r\n") + 4);
    // Node itself refuses a missing Host, without a body (here as an empty last chunk).
    if (body !== "" && body !== "0\r\n\r\n") {
      expect(JSON.parse(body), `${why}: ${bytes.slice(0, 400)}`).toMatchObject({
        error: { message: expect.any(String), type: expect.any(String) },
      });
    }
    statuses.set(status, (statuses.get(status) ?? 0) + 1);
  }
  expect([...statuses.keys()]).toEqual(expect.arrayContaining(["400", "404", "405", "413", "415"]));
  expect(model.runningCount).toBe(0);
  const after = await json(send("/v1/completions", { prompt: "still here" }));
  expect(after.choices?.[0]?.text).toBe("STILL HERE");
  const info = await json(fetch(`${server.url}/server_info`));
  expect(info.requests_in_work).toBe(0);
});
