// node bench/cluster/load.mjs --url URL[,URL] --traffic agents|chats|shared|FILE.jsonl
//   [--speedup 1] [--rate-scale 1] [--requests N] [--until SECONDS] [--seed 1]
//   [--api ids|text|chat] [--model NAME] [--tokenizer FOLDER] [--key KEY]
//   [--session-header x-session-id] [--timeout 600] [--ideal] [--out FILE]
//
// Sends traffic (docs/traffic.md) to an OpenAI address when it is due, whatever the server does;
// requests of one conversation wait for its answers. Several URLs take turns. Prints JSON; with
// --ideal also the hit rate of one endless cache, by whole blocks of 16 tokens.
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import {
  agents,
  chats,
  idealHitRate,
  messagesOf,
  promptOf,
  readTrace,
  sharedPrompts,
  summaryOf,
  TrafficWords,
  traceRequests,
} from "../../dist/simulator/index.js";
import { readFlags, refuse } from "../../tools/flags.mjs";
import { describeMachine } from "../machine.mjs";
import { LoadStats } from "./load-stats.mjs";
import { askStream } from "./stream-client.mjs";

const { values: flags } = readFlags({
  options: {
    url: { type: "string" },
    traffic: { type: "string", default: "chats" },
    speedup: { type: "number", default: 1, min: 0.001 },
    "rate-scale": { type: "number", default: 1, min: 0.001 },
    requests: { type: "number", min: 1 },
    until: { type: "number", min: 0 },
    seed: { type: "number", default: 1 },
    api: { type: "string", default: "ids" },
    model: { type: "string" },
    tokenizer: {
      type: "string",
      default: fileURLToPath(new URL("../../models/pocket", import.meta.url)),
    },
    key: { type: "string" },
    "session-header": { type: "string", default: "x-session-id" },
    timeout: { type: "number", default: 600, min: 1 },
    ideal: { type: "boolean", default: false },
    out: { type: "string" },
  },
});
if (flags.url === undefined) refuse("Cannot send traffic: --url must be given");
if (!["ids", "text", "chat"].includes(flags.api)) {
  refuse(`Cannot use --api ${flags.api}: it must be ids, text or chat`);
}

const tokenizerJson = JSON.parse(readFileSync(`${flags.tokenizer}/tokenizer.json`, "utf8"));
const words = TrafficWords.of(tokenizerJson);
if (words === null) throw new Error(`Cannot write text: ${flags.tokenizer} has too few words`);
const urls = flags.url.split(",").map((url) => url.replace(/\/$/, ""));
const traffic = await loadTraffic();
const model = flags.model ?? (await firstModel());
const stats = new LoadStats();
/** What was heard, by request: for the messages of the same conversation. */
const heard = new Map();
const ended = new Map();
const divisor = flags.speedup;
const startMs = performance.now();

await Promise.all(traffic.requests.map((request, place) => send(request, place)));
report();

async function loadTraffic() {
  const { seed, until } = flags;
  const made = await makeTraffic(seed);
  const untilMs = until === undefined ? Number.POSITIVE_INFINITY : until * 1000;
  const requests = made.requests
    .map((request) => ({ ...request, atMs: request.atMs / flags["rate-scale"] }))
    .filter(({ atMs }) => atMs < untilMs)
    .slice(0, flags.requests);
  return { name: made.name, requests };
}

async function makeTraffic(seed) {
  switch (flags.traffic) {
    case "agents":
      return agents({ seed });
    case "chats":
      return chats({ seed });
    case "shared":
      return sharedPrompts({ seed });
    default:
      return traceRequests(await readTrace(flags.traffic, 512), { name: "trace", seed });
  }
}

async function firstModel() {
  const url = `${urls[0]}/v1/models`;
  const response = await fetch(url, { headers: headers(null) }).catch(() => null);
  if (response === null) refuse(`Cannot send traffic: nothing answers at ${url}`);
  const text = await response.text();
  if (!response.ok) refuse(`Cannot send traffic: ${url} answers ${response.status}: ${text}`);
  const [first] = JSON.parse(text).data ?? [];
  return first?.id ?? refuse(`Cannot send traffic: ${url} names no model; give --model`);
}

/** Of this command, without the key: results are shown to others. */
function wordsShown() {
  return process.argv.slice(2).map((word) => (word === flags.key ? "KEY" : word));
}

function headers(session) {
  return {
    "content-type": "application/json",
    ...(flags.key === undefined ? {} : { authorization: `Bearer ${flags.key}` }),
    ...(session === null ? {} : { [flags["session-header"]]: session }),
  };
}

async function send(request, place) {
  let done = () => {};
  ended.set(request.id, new Promise((resolve) => (done = resolve)));
  const before = request.after === null ? undefined : ended.get(request.after);
  if (before === undefined) await sleepUntil(startMs + request.atMs / divisor);
  else {
    await before;
    await sleepUntil(performance.now() + request.thinkMs / divisor);
  }
  const url = urls[place % urls.length];
  const [path, body] = bodyOf(request);
  const answer = await askStream(`${url}${path}`, {
    headers: headers(request.session),
    body: JSON.stringify(body),
    timeoutMs: flags.timeout * 1000,
  });
  stats.add(answer);
  if (answer.error === null) heard.set(request.id, answer.text);
  done();
}

function bodyOf(request) {
  const common = {
    ...{ model, max_tokens: request.outputTokens, temperature: 0, ignore_eos: true },
    ...{ stream: true, stream_options: { include_usage: true } },
  };
  if (flags.api === "chat") {
    const messages = messagesOf(request, words, heard);
    return ["/v1/chat/completions", { ...common, messages }];
  }
  const prompt = promptOf(request, words);
  const shown = flags.api === "ids" ? [...prompt] : words.textOf(prompt);
  return ["/v1/completions", { ...common, prompt: shown }];
}

async function sleepUntil(ms) {
  const waitMs = ms - performance.now();
  if (waitMs > 0) await new Promise((resolve) => setTimeout(resolve, waitMs));
}

function report() {
  const result = {
    command: `node bench/cluster/load.mjs ${wordsShown().join(" ")}`,
    machine: describeMachine(),
    traffic: { name: traffic.name, ...summaryOf(traffic) },
    seconds: (performance.now() - startMs) / 1000,
    speedup: divisor,
    ...stats.summary(),
    ...(flags.ideal
      ? { idealHitRate: idealHitRate(traffic, 16, (request) => promptOf(request, words)) }
      : {}),
  };
  const text = JSON.stringify(result, null, 2);
  if (flags.out !== undefined) writeFileSync(flags.out, `${text}\n`);
  console.log(text);
}
