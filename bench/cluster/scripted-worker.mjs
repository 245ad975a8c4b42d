/**
 * A worker without a model, for measurements of what is before it: it answers at once, and streams
 * tokens at a rate. Prints its address.
 *
 *   node bench/cluster/scripted-worker.mjs [--model NAME] [--ms-per-token 20] [--texts]
 */
import { createServer } from "node:http";
import { bundledModel, TextModel } from "../../dist/engine/index.js";
import { chatPromptTokens, completionPromptTokens } from "../../dist/server/index.js";
import { readFlags } from "../../tools/flags.mjs";

const { values: flags } = readFlags({
  options: {
    model: { type: "string", default: "pocket" },
    "ms-per-token": { type: "number", default: 20 },
    // Refuses to tokenize, so that a router sends texts.
    texts: { type: "boolean", default: false },
  },
});

const text = flags.texts ? null : await TextModel.open(bundledModel, { onWarning: () => {} });
const id = "chatcmpl-fd61a223-81e6-48b8-891d-27aa7dce583d";
const streams = new Set();

function json(response, value, status = 200) {
  const body = JSON.stringify(value);
  response.writeHead(status, {
    "content-type": "application/json",
    "content-length": Buffer.byteLength(body),
  });
  response.end(body);
}

function chunk(delta, finish) {
  const choice = { index: 0, delta, logprobs: null, finish_reason: finish };
  const fields = { id, object: "chat.completion.chunk", created: 1, model: flags.model };
  return `data: ${JSON.stringify({ ...fields, choices: [choice] })}\n\n`;
}

const TOKEN = chunk({ content: " token" }, null);
const LAST = chunk({}, "length");

/** One token for every stream, as a step of an engine makes them. */
setInterval(() => {
  for (const stream of streams) step(stream);
}, flags["ms-per-token"]);

function step(stream) {
  const { response, marked } = stream;
  stream.sent++;
  const isLast = stream.sent >= stream.tokens;
  const marker = marked ? `: t 0 995${isLast ? " end" : ""}\n\n` : "";
  if (isLast) {
    streams.delete(stream);
    response.end(`${TOKEN}${LAST}${marker}data: [DONE]\n\n`);
  } else response.write(TOKEN + marker);
}

function chat(response, body) {
  const tokens = body.max_tokens ?? 16;
  if (body.stream !== true) {
    const message = { role: "assistant", content: " token".repeat(tokens) };
    const choices = [{ index: 0, message, logprobs: null, finish_reason: "length" }];
    const usage = { prompt_tokens: 1000, completion_tokens: tokens, total_tokens: 1000 + tokens };
    json(response, {
      id,
      object: "chat.completion",
      created: 1,
      model: flags.model,
      choices,
      usage,
    });
    return;
  }
  response.writeHead(200, { "content-type": "text/event-stream" });
  response.socket.setNoDelay(true);
  const marked = body.perigee?.markers === true;
  const stream = { response, marked, tokens, sent: 0 };
  if (marked) response.write(": p 0 1000 0\n\n");
  response.once("close", () => streams.delete(stream));
  step(stream);
  if (tokens > 1) streams.add(stream);
}

async function tokenize(response, body) {
  if (text === null) return json(response, {}, 404);
  const signal = AbortSignal.timeout(10_000);
  const tokens =
    body.messages === undefined
      ? (await completionPromptTokens(text, body, signal))[0]
      : await chatPromptTokens(text, body, signal);
  return json(response, { count: tokens.length, tokens });
}

const server = createServer((request, response) => {
  if (request.url.startsWith("/worker_info")) return json(response, info());
  if (request.method === "GET")
    return json(response, { object: "list", data: [{ id: flags.model }] });
  const parts = [];
  request.on("data", (part) => parts.push(part));
  request.on("end", () => {
    const body = JSON.parse(Buffer.concat(parts).toString());
    if (request.url === "/tokenize") void tokenize(response, body);
    else chat(response, body);
  });
});

function info() {
  const load = { runningRequests: 0, waitingRequests: 0, blocksUsed: 0, uncachedTokens: 0 };
  const url = `http://127.0.0.1:${server.address().port}`;
  return {
    ...{ id: url, url, epoch: "1", kind: "perigee", version: "0", models: [flags.model] },
    ...{ fingerprint: "scripted", contextTokensMax: 1_000_000, kv: null, state: "ready", load },
  };
}

server.listen(0, "127.0.0.1", () => console.log(`http://127.0.0.1:${server.address().port}`));
