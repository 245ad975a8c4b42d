/** Bytes that are no right HTTP, or right HTTP that is unusual. */
import { gzipSync } from "node:zlib";
import type { Dice } from "../fuzz/dice.ts";
import type { WireCase } from "./hostile-case.ts";

type Headers = Readonly<Record<string, string>>;

const right = '{"prompt":"A cache is","max_tokens":2,"temperature":0}';
const post = (body: string | Buffer, headers: Headers = {}, path = "/v1/completions"): Buffer =>
  message(`POST ${path} HTTP/1.1`, body, {
    "content-type": "application/json",
    "content-length": String(Buffer.byteLength(body)),
    ...headers,
  });
const get = (path: string, headers: Headers = {}, method = "GET"): Buffer =>
  message(`${method} ${path} HTTP/1.1`, "", headers);

function message(start: string, body: string | Buffer, headers: Headers): Buffer {
  const lines = Object.entries({ host: "localhost", ...headers });
  const head = lines.map(([name, value]) => `${name}: ${value}\r\n`).join("");
  return Buffer.concat([Buffer.from(`${start}\r\n${head}\r\n`, "latin1"), Buffer.from(body)]);
}

const strangeHeaders: readonly Headers[] = [
  ...["1\r\nx-evil: 1", "a".repeat(8_000), "é", "\u0001", "../../x", "__proto__", "a b", ""].map(
    (id) => ({ "x-request-id": id }),
  ),
  ...["Bearer ", "Bearer a".repeat(900), "Basic x", "bearer\tx", "\u00ff"].map((authorization) => ({
    authorization,
  })),
  ...["text/plain", "", "application/json; charset=utf-16", "multipart/form-data", "a/b/c"].map(
    (type) => ({ "content-type": type }),
  ),
  ...["gzip", "br", "identity, gzip", "x".repeat(4_000)].map((encoding) => ({
    "content-encoding": encoding,
  })),
  ...[{ expect: "100-continue" }, { expect: "nothing" }, { upgrade: "websocket" }],
  ...[{ connection: "upgrade, close", upgrade: "h2c" }, { te: "trailers, deflate" }, { host: "" }],
  ...[
    { origin: "null" },
    { "access-control-request-method": "BREW", origin: "*" },
    { range: "bytes=0-" },
  ],
  { "x-long": "a".repeat(30_000) },
  Object.fromEntries(Array.from({ length: 1_900 }, (_, at) => [`h${at}`, "1"])),
  Object.fromEntries(Array.from({ length: 3_000 }, (_, at) => [`h${at}`, "1"])),
];

/** Lengths and chunks that lie about the body. */
const lies: readonly (() => Buffer)[] = [
  ...["-1", "abc", "1e3", "0x10", "1, 2", "99999999999", "4294967297", " ", "+5", "5.0"].map(
    (length) => () => post(right, { "content-length": length }),
  ),
  () => post(right, { "content-length": String(right.length + 50) }),
  () => post(right, { "content-length": String(right.length - 5) }),
  () => post(right, { "transfer-encoding": "chunked" }),
  () => post(`${right}\r\n`, { "content-length": "3", "transfer-encoding": "identity" }),
  ...["zz\r\n", "-1\r\nabc\r\n", "ffffffffffffffff\r\n", "5;a=", "5\r\nabc", "1\r\na\r\n0\r\n"].map(
    (chunks) => () => chunked(chunks),
  ),
  () => chunked(`5;${"x".repeat(20_000)}\r\nabcde\r\n0\r\n\r\n`),
  () => chunked(`${right.length.toString(16)}\r\n${right}\r\n0\r\nx-evil: 1\r\n\r\n`),
  () => chunked("1\r\n{\r\n".repeat(5_000)),
  () => post(gzipSync(Buffer.alloc(50_000_000)), { "content-encoding": "gzip" }),
];

function chunked(chunks: string): Buffer {
  const headers = { "content-type": "application/json", "transfer-encoding": "chunked" };
  return message("POST /v1/completions HTTP/1.1", chunks, headers);
}

const bodies: readonly (() => string | Buffer)[] = [
  ...["", " ", "null", "1", '"a"', "[]", "{", "}", '{"prompt":', '{"prompt":"a",}', "NaN"].map(
    (body) => () => body,
  ),
  () => Buffer.from([0xff, 0xfe, 0x7b, 0x00]),
  () => Buffer.from('{"prompt":"\xff\xc0\x80","max_tokens":1}', "latin1"),
  () => `\ufeff${right}`,
  () => "[".repeat(1_000_000),
  () => '{"a":'.repeat(200_000),
  () => `{"prompt":"${"a".repeat(17_000_000)}"}`,
  () => `{"prompt":"a","max_tokens":1${"0".repeat(1_000_000)}}`,
  () => `{${'"prompt":"a",'.repeat(100_000)}"max_tokens":1}`,
];

const paths: readonly string[] = [
  ...[
    "/",
    "//",
    "/%00",
    "/%ff",
    "/%",
    "/../../etc/passwd",
    "/%2e%2e/%2e%2e/etc/passwd",
    "*",
    "/v1",
  ],
  ...["/v1/models/../x", "/v1/models/%2f%2f", "/v1/models/__proto__", "/v1/models/", "/health?a"],
  ...["/kv_cache_events/stream?after=x", "/kv_cache_events/stream?after=-2", "/metrics?%00"],
  ...["/kv_cache_events/stream?runs=%00", "/kv_cache_events/stream?runs=packed&runs=x"],
  ...["/kv_cache_events/stream?after=99999999999999999", "/server_info?__proto__[x]=1", "/?a=%zz"],
  ...[
    "/dashboard/prefixes?runs=1e9",
    "/dashboard/prefixes?node=-1&serial=0",
    "/dashboard/text?node=x",
  ],
  ...["/dashboard/events?view=%00", "/dashboard/events?view=a&view=b", "/dashboard/assets/%2e%2e"],
  ...["http://other.example/health", "/v1/completions?stream=true", "/%F0%9F%98%80", "/\u00ff"],
  ...[`/${"a".repeat(15_000)}`, `/v1/models/${"a".repeat(5_000)}`, `/${"a/".repeat(4_000)}`],
];

const methods = ["HEAD", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "BREW", "post"];

const noHttp: readonly (() => Buffer)[] = [
  () => Buffer.from("GET /health\r\n\r\n"),
  () => Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
  () => Buffer.from([0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3, ...new Array(200).fill(7)]),
  () => Buffer.from("\r\n".repeat(2_000)),
  () => Buffer.alloc(100_000, 0),
  () => Buffer.from("GET / HTTP/9.9\r\nhost: x\r\n\r\n"),
  () => Buffer.from("GET / HTTP/1.1\r\n\r\n"),
  () => Buffer.from("GET / HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n"),
  () => Buffer.from("GET / HTTP/1.1\r\nhost: a\r\nbad header\r\n\r\n"),
  () => Buffer.from("GET / HTTP/1.1\r\nhost: a\r\n folded: 1\r\n\r\n"),
  () => Buffer.from("GET / HTTP/1.1\nhost: a\n\n"),
  () => Buffer.from("POST /v1/completions HTTP/1.1\r\nhost: a\r\n"),
];

/** How `POST /kv_cache_events` and its query may say what to wait for. */
const waits = ["-1", "600001", "1e3", "NaN", "0x10", "1e309", "null", "__proto__", "0"];

const kinds: readonly ((dice: Dice) => readonly Buffer[])[] = [
  (dice) => [draw(lies, dice)()],
  (dice) => [post(draw(bodies, dice)(), {}, draw(ROUTES, dice))],
  (dice) => [post(right, draw(strangeHeaders, dice))],
  (dice) => [get(draw(ALL_PATHS, dice), draw(strangeHeaders, dice))],
  (dice) => [get(draw(paths, dice))],
  (dice) => [get(draw(ALL_PATHS, dice), {}, draw(methods, dice))],
  (dice) => [draw(noHttp, dice)()],
  (dice) => new Array<Buffer>(1 + dice.below(40)).fill(get("/health")),
  (dice) => new Array<Buffer>(1 + dice.below(12)).fill(post(right)),
  (dice) => [post(right), draw(noHttp, dice)(), post(right)],
  (dice) => [post(`{"timeout_ms":${draw(waits, dice)}}`, {}, "/kv_cache_events")],
  (dice) => [post("", {}, `/kv_cache_events?timeout_ms=${draw(waits, dice)}`)],
  (dice) => cut(post(right), 1 + dice.below(5)),
  (dice) => [mutated(post(right), dice)],
];

const ROUTES = ["/v1/completions", "/v1/chat/completions", "/tokenize", "/kv_cache_events"];
const ALL_PATHS = [
  ...[...ROUTES, "/v1/embeddings", "/detokenize", "/v1/models", "/v1/models/pocket", "/health"],
  ...["/ping", "/version", "/metrics", "/server_info", "/", "/nothing"],
  ...["/dashboard/prefixes", "/dashboard/text", "/dashboard/assets/index.js"],
];

/** A wire case; its name says its kind. */
export function wireCase(name: string, dice: Dice): WireCase {
  const kind = dice.below(100);
  if (kind < LEAVING_PERCENT) return { ...leaving(name, dice), end: "leaves" };
  if (kind < STALLING_PERCENT) return { ...leaving(name, dice), end: "stalls" };
  return { kind: "wire", name, pieces: draw(kinds, dice)(dice), end: "reads" };
}

const LEAVING_PERCENT = 8;
const STALLING_PERCENT = 12;

/** A right request whose answer is long, or one that breaks off. */
function leaving(name: string, dice: Dice): Omit<WireCase, "end"> {
  const body = draw(longAnswers, dice);
  const whole = post(body);
  const pieces = dice.below(4) === 0 ? [whole.subarray(0, dice.below(whole.length))] : [whole];
  return { kind: "wire", name, pieces };
}

const longAnswers = [
  '{"prompt":"A cache is","max_tokens":1000,"ignore_eos":true,"stream":true,"logprobs":20}',
  '{"prompt":"A mutex is","max_tokens":1000,"ignore_eos":true,"n":4,"temperature":1}',
  '{"prompt":"An index is","max_tokens":500,"ignore_eos":true,"stream":true,"n":8,"temperature":1}',
];

/** The message in several pieces. */
function cut(bytes: Buffer, pieces: number): Buffer[] {
  const size = Math.ceil(bytes.length / pieces);
  return Array.from({ length: pieces }, (_, at) => bytes.subarray(at * size, (at + 1) * size));
}

/** Some bytes are others. */
function mutated(bytes: Buffer, dice: Dice): Buffer {
  const copy = Buffer.from(bytes);
  for (let count = 1 + dice.below(8); count > 0; count--) {
    copy[dice.below(copy.length)] = dice.below(256);
  }
  return copy;
}

function draw<Item>(items: readonly Item[], dice: Dice): Item {
  const item = dice.pick(items);
  if (item === null) throw new Error("Cannot draw: there is nothing to draw from");
  return item;
}
