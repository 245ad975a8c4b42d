// Programs that trials run in an installed folder, and what is measured of them.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { output, put, tried } from "./workplace.mjs";

/** README's program, with the bundled model: the time from the start of Node to the first token. */
const FIRST_TOKEN = `
import { LLM } from "perigee";
const warnings = [];
const llm = await LLM.load(undefined, { onWarning: (text) => warnings.push(text) });
const loadMs = performance.now();
const prompt = await llm.chatPrompt([{ role: "user", content: "Who are you?" }]);
const promptMs = performance.now();
let firstTokenMs = null;
let text = "";
for await (const item of llm.stream(prompt, { temperature: 0, maxTokens: 16 })) {
  firstTokenMs ??= performance.now();
  text += item.text ?? "";
}
const { device } = llm.info;
console.log(JSON.stringify({ device, loadMs, promptMs, firstTokenMs, text, warnings }));
await llm.close();
`;

/** Decoding and prefilling on one stream: tokens per second, the best of some. */
const SPEED = `
const { LLM } = await import(process.argv[2]);
const llm = await LLM.load();
const options = { temperature: 0, ignoreEos: true };
async function seconds(prompt, maxTokens) {
  const startMs = performance.now();
  for await (const _ of llm.stream(prompt, { ...options, maxTokens }));
  return (performance.now() - startMs) / 1000;
}
const [decode, prefill] = [[], []];
for (let round = 0; round < 8; round++) {
  decode.push(200 / (await seconds("Hello, my name is", 200)));
  const idAt = (place) => (place * 7 + round * 311) % 4000;
  const promptTokenIds = Array.from({ length: 900 }, (_, place) => idAt(place));
  prefill.push(900 / (await seconds({ promptTokenIds }, 1)));
}
console.log(JSON.stringify({ decode: Math.max(...decode), prefill: Math.max(...prefill) }));
await llm.close();
`;

export function writePrograms(folder) {
  put(folder, "app.mjs", FIRST_TOKEN);
  put(folder, "speed.mjs", SPEED);
}

/** The middle of some numbers. */
export function median(values) {
  return [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)];
}

/** Runs the program of `file` several times. */
export function firstTokens({ folder, env, file = "app.mjs", runs }) {
  const all = Array.from({ length: runs }, () =>
    JSON.parse(output("node", [file], { cwd: folder, env })),
  );
  const times = all.map(({ firstTokenMs }) => firstTokenMs);
  return { ...all[0], bestMs: Math.min(...times), medianMs: median(times) };
}

/** From the start of a command to the first byte that it prints: an answer's, for these. */
async function firstOutputMs({ folder, env, words, input }) {
  const startMs = performance.now();
  const child = spawn("node", words, { cwd: folder, env, stdio: ["pipe", "pipe", "inherit"] });
  child.stdin.end(input);
  const [first] = await once(child.stdout, "data");
  const ms = performance.now() - startMs;
  child.stdout.resume();
  const [code] = await once(child, "exit");
  if (code !== 0 || String(first).trim() === "") throw new Error(`${words.join(" ")} failed`);
  return ms;
}

/** The same of `perigee generate` and `perigee chat`: best and median of several. */
export async function commandTimes({ folder, env, main, runs }) {
  const calls = {
    generate: { words: [main, "generate", "--temperature", "0", "--prompt", "Hello"], input: "" },
    chat: { words: [main, "chat", "--temperature", "0"], input: "Who are you?\\n" },
  };
  const times = {};
  for (const [name, call] of Object.entries(calls)) {
    const all = [];
    for (let count = 0; count < runs; count++) {
      all.push(await firstOutputMs({ folder, env, ...call }));
    }
    times[name] = { bestMs: Math.min(...all), medianMs: median(all) };
  }
  return times;
}

/** Tokens per second of the package at `url`. */
function speedOf(url, { folder, env }) {
  return JSON.parse(output("node", ["speed.mjs", url], { cwd: folder, env }));
}

/** The installed package beside the checkout, by turns: the best of each, and their ratios. */
export function speedBeside(checkout, { folder, env, rounds }) {
  const best = { installed: { decode: 0, prefill: 0 }, checkout: { decode: 0, prefill: 0 } };
  for (let round = 0; round < rounds; round++) {
    for (const [place, url] of [
      ["installed", "perigee"],
      ["checkout", checkout],
    ]) {
      const found = speedOf(url, { folder, env });
      for (const kind of ["decode", "prefill"]) {
        best[place][kind] = Math.max(best[place][kind], found[kind]);
      }
    }
  }
  return best;
}

/** Runs a program that is to fail with a message, or may warn. */
export function outcome({ folder, env, file }) {
  return tried("node", [file], { cwd: folder, env });
}
