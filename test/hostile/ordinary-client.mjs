/**
 * node test/hostile/ordinary-client.mjs URL REST_MS
 *
 * Clients that do nothing wrong, in a process of their own, whose pauses are none but the server's:
 * eight streams, each begun again up to REST_MS after it ended. Talks with `ordinary-streams.ts` over IPC.
 */
import { Agent, request } from "node:http";
import { setTimeout } from "node:timers/promises";

const PROMPTS = [
  ...["A cache is", "In PostgreSQL, an index", "The server", "def main():", "## Install\n\n"],
  ...["A mutex is", "To list files,", "The function returns"],
];
const TOKENS = 48;
const STREAM_MS_MAX = 300_000;
const [url, restMs] = process.argv.slice(2);
const agent = new Agent({ keepAlive: true });
/** The longest time between two tokens of a stream, by the window that is open. */
const windows = new Map();
let lastMs = performance.now();
let stopped = false;
let read = 0;
let problems = 0;

function tell(message) {
  process.send(message);
}

/** Reads one stream to its end; its text. */
function readStream(prompt, onGap = () => {}) {
  const body = JSON.stringify({
    ...{ prompt, stream: true, temperature: 0, repetition_penalty: 1 },
    ...{ max_tokens: TOKENS, ignore_eos: true },
  });
  return new Promise((resolve, reject) => {
    const headers = { "content-type": "application/json", "content-length": body.length };
    const signal = AbortSignal.timeout(STREAM_MS_MAX);
    const sent = request(`${url}/v1/completions`, { method: "POST", agent, headers, signal });
    sent.once("error", reject);
    sent.once("response", (response) => {
      let rest = "";
      let text = "";
      let beforeMs = null;
      let whole = false;
      response.setEncoding("utf8");
      response.once("error", reject);
      response.on("data", (chunk) => {
        const nowMs = performance.now();
        if (beforeMs !== null) onGap(nowMs - beforeMs);
        beforeMs = nowMs;
        const messages = `${rest}${chunk}`.split("\n\n");
        rest = messages.pop() ?? "";
        for (const message of messages) {
          if (message === "data: [DONE]") whole = true;
          else if (message.startsWith("data: ")) {
            const parsed = JSON.parse(message.slice("data: ".length));
            if (parsed.error !== undefined) reject(new Error(message));
            text += parsed.choices?.[0]?.text ?? "";
          }
        }
      });
      response.once("end", () => {
        if (response.statusCode !== 200) reject(new Error(`${response.statusCode} ${rest}`));
        else if (whole) resolve(text);
        else reject(new Error("it ended without [DONE]"));
      });
    });
    sent.end(body);
  });
}

function problem(message) {
  problems++;
  tell({ type: "problem", message: `an ordinary stream ${message}` });
}

async function repeat(prompt, at, wanted) {
  // Not all rest at the same time.
  const ownRestMs = (Number(restMs) * (at + 1)) / PROMPTS.length;
  while (!stopped) {
    try {
      const text = await readStream(prompt, (gapMs) => {
        for (const [id, worstMs] of windows) windows.set(id, Math.max(worstMs, gapMs));
        lastMs = performance.now();
      });
      read++;
      if (text !== wanted) {
        problem(`wrote ${JSON.stringify(text)} instead of ${JSON.stringify(wanted)}`);
      }
    } catch (error) {
      problem(`failed: ${error}`);
      if (problems > PROMPTS.length) return;
    }
    if (ownRestMs > 0) await setTimeout(ownRestMs);
  }
}

/** What each prompt is answered with while no other request runs; then the streams begin. */
async function begin() {
  const texts = [];
  for (const prompt of PROMPTS) texts.push(await readStream(prompt));
  tell({ type: "begun" });
  setInterval(() => tell({ type: "silent", ms: performance.now() - lastMs }), 500).unref();
  lastMs = performance.now();
  await Promise.all(PROMPTS.map((prompt, at) => repeat(prompt, at, texts[at])));
  tell({ type: "stopped", read });
  process.disconnect();
  agent.destroy();
}

process.on("message", ({ type, id }) => {
  if (type === "open") windows.set(id, 0);
  else if (type === "stop") stopped = true;
  else if (type === "close") {
    tell({ type: "closed", id, worstMs: windows.get(id) ?? 0 });
    windows.delete(id);
  }
});
process.on("disconnect", () => process.exit());
await begin();
