/**
 * node bench/dashboard-cost.mjs [--streams 256] [--output-tokens 96] [--runs 7]
 *     [--view now|cache] [--page chromium|stream] [--minutes 0] [--serve FLAGS]
 *     [--server-cpus 0 --other-cpus 1] [--control none|replay]
 *
 * What an open page costs: processor time a token of `perigee serve` under many streams, with and
 * without a page, in alternated runs, and the medians of both. `--page chromium` opens a real page
 * (it needs Chromium); `stream` reads what a page reads. With Chromium it also prints the first
 * paint of fresh pages, idle server, and with `--minutes` how a page's heap and nodes grow while it
 * is open under load. Linux only: times are of /proc.
 */
import { execFileSync, fork, spawn } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { readFlags } from "../tools/flags.mjs";
import { startReplay } from "./dashboard-replay.mjs";
import { describeMachine } from "./machine.mjs";

const TICKS_PER_SECOND = 100;
const CHROMIUM = process.env.PERIGEE_CHROMIUM ?? "/usr/bin/chromium";
const READY_MS = 60_000;
const PROMPT = "A cache keeps what was computed, so that it is not computed again. ".repeat(3);

if (process.send !== undefined) runClients();
else await measure();

/** In a process of their own: streams that read all they get, and count it. */
function runClients() {
  process.on("message", async ({ url, streams, outputTokens }) => {
    const counts = await Promise.all(
      Array.from({ length: streams }, (_, at) => readStream(url, at, outputTokens)),
    );
    process.send({ tokens: counts.reduce((sum, count) => sum + count, 0) });
  });
  process.send({ ready: true });
}

async function readStream(url, at, outputTokens) {
  const answer = await fetch(`${url}/v1/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({
      ...{ prompt: `${PROMPT} ${at}`, max_tokens: outputTokens, ignore_eos: true, seed: at },
      ...{ stream: true, stream_options: { include_usage: true } },
    }),
  });
  let text = "";
  for await (const piece of answer.body.pipeThrough(new TextDecoderStream())) {
    text = (text + piece).slice(-2000);
  }
  return Number(/"completion_tokens":(\d+)/.exec(text.slice(text.lastIndexOf('"usage"')))?.[1]);
}

async function measure() {
  const { values: flags } = readFlags({
    options: {
      streams: { type: "number", default: 256, min: 1 },
      "output-tokens": { type: "number", default: 96, min: 2 },
      runs: { type: "number", default: 7, min: 1 },
      view: { type: "string", default: "now" },
      page: { type: "string", default: existsSync(CHROMIUM) ? "chromium" : "stream" },
      minutes: { type: "number", default: 0 },
      serve: { type: "string", default: "" },
      control: { type: "string", default: "none" },
      "server-cpus": { type: "string" },
      "other-cpus": { type: "string" },
    },
  });
  const server = await startServer(flags);
  // Clients and the browser are children of this process: they run where it runs.
  pin(process.pid, flags["other-cpus"]);
  pin(server.pid, flags["server-cpus"]);
  const browser = flags.page === "chromium" ? await openBrowser() : null;
  try {
    const firstPaintMs = browser === null ? null : await paints(browser, server.url);
    const load = { url: server.url, streams: flags.streams, outputTokens: flags["output-tokens"] };
    const control = flags.control === "replay" ? await startReplay(server.url) : null;
    const recorded = control === null ? null : await record(control, { flags, browser }, load);
    if (control === null) await drive(load);
    const sides = { with: { url: server.url, flags, browser }, without: null };
    if (control !== null) sides.without = { url: control.url, flags, browser };
    const runs = { without: [], with: [] };
    for (let run = 0; run < flags.runs; run++) {
      // Which one is first changes: a machine that slows down favours neither.
      for (const kind of run % 2 === 0 ? ["without", "with"] : ["with", "without"]) {
        runs[kind].push(await oneRun(server, load, sides[kind]));
      }
    }
    control?.close();
    const without = median(runs.without);
    const withPage = median(runs.with);
    const growth =
      browser === null || flags.minutes === 0 ? null : await grow(browser, load, flags);
    console.log(
      JSON.stringify({
        ...{ machine: describeMachine(), streams: flags.streams, runs: flags.runs },
        ...{ view: flags.view, page: flags.page },
        ...{ serverCpus: flags["server-cpus"], otherCpus: flags["other-cpus"] },
        usPerToken: { without, with: withPage },
        ...(recorded === null ? {} : { control: recorded }),
        morePercent: Math.round((withPage / without - 1) * 10_000) / 100,
        ...{ usPerTokenByRun: runs, firstPaintMs, growth },
      }),
    );
  } finally {
    await browser?.close();
    server.end();
  }
}

/** Microseconds of the server's processor time a token. */
async function oneRun(server, load, open) {
  const close = open === null ? async () => {} : await openPage(open, open.url);
  const before = server.seconds();
  const { tokens } = await drive(load);
  const used = server.seconds() - before;
  await close();
  return Math.round((used / tokens) * 1e9) / 1000;
}

/** Shows a page what a run makes, to be shown again. */
async function record(control, open, load) {
  const close = await openPage(open, control.url);
  await drive(load);
  await close();
  return control.replay();
}

async function startServer(flags) {
  const main = fileURLToPath(new URL("../dist/cli/main.js", import.meta.url));
  const port = 20_000 + (process.pid % 20_000);
  const given = flags.serve.split(" ").filter((word) => word !== "");
  const words = [main, "serve", ...given, "--port", String(port), "--log-level", "error"];
  const child = spawn(process.execPath, words, { stdio: ["ignore", "ignore", "inherit"] });
  const url = `http://127.0.0.1:${port}`;
  const deadlineMs = performance.now() + READY_MS;
  for (;;) {
    const isReady = await fetch(`${url}/health`).then(
      ({ ok }) => ok,
      () => false,
    );
    if (isReady) break;
    if (child.exitCode !== null || performance.now() > deadlineMs) {
      throw new Error("The server does not start");
    }
    await sleep(100);
  }
  const { pid } = child;
  return { url, pid, seconds: () => secondsOf(pid), end: () => child.kill("SIGKILL") };
}

/** Lets all threads of a process, and what it starts from now on, run on these processors only. */
function pin(pid, cpus) {
  if (cpus === undefined) return;
  execFileSync("taskset", ["--all-tasks", "--cpu-list", "--pid", cpus, String(pid)]);
}

/** Processor time of a process with all its threads. */
function secondsOf(pid) {
  const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return (Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND;
}

async function openBrowser() {
  const { chromium } = await import("playwright-core");
  return chromium.launch({
    executablePath: CHROMIUM,
    args: [
      ...["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"],
      ...["--disable-background-networking", "--disable-component-update", "--disable-sync"],
      "--enable-precise-memory-info",
    ],
  });
}

/** Opens a page; what is returned closes it. */
async function openPage({ flags, browser }, url) {
  if (browser === null) return readAsPage(url, flags.view);
  const page = await browser.newPage();
  await page.goto(`${url}/#${flags.view}`);
  await page.waitForSelector(".state-open");
  return () => page.close();
}

/** Reads the stream, and asks for the tree as often as a page does. */
async function readAsPage(url, view) {
  const stop = new AbortController();
  const { signal } = stop;
  const answer = await fetch(`${url}/dashboard/events?view=${view}`, { signal });
  const reading = (async () => {
    for await (const _ of answer.body);
  })().catch(() => {});
  const timer = setInterval(() => {
    if (view !== "cache") return;
    fetch(`${url}/dashboard/prefixes?runs=240`, { signal })
      .then((picture) => picture.arrayBuffer())
      .catch(() => {});
  }, 1000);
  return async () => {
    clearInterval(timer);
    stop.abort();
    await reading;
  };
}

/** First paints of fresh pages, in ms: nothing is in the browser's cache. */
async function paints(browser, url) {
  const all = [];
  for (let turn = 0; turn < 7; turn++) {
    const context = await browser.newContext();
    const page = await context.newPage();
    await page.goto(url);
    await page.waitForSelector(".state-open");
    const [first] = await page.evaluate(
      "performance.getEntriesByType('paint').map(({ startTime }) => startTime)",
    );
    all.push(Math.round(first));
    await context.close();
  }
  return { median: median(all), all };
}

/** What a page keeps, each minute, behind a collection of garbage. */
async function grow(browser, load, { view, minutes }) {
  const page = await browser.newPage();
  await page.goto(`${load.url}/#${view}`);
  await page.waitForSelector(".state-open");
  const session = await page.context().newCDPSession(page);
  await session.send("Performance.enable");
  const samples = [];
  const endMs = performance.now() + minutes * 60_000;
  let nextMs = performance.now() + 60_000;
  while (performance.now() < endMs) {
    await drive({ ...load, streams: Math.ceil(load.streams / 8) });
    if (performance.now() < nextMs) continue;
    nextMs += 60_000;
    await session.send("HeapProfiler.collectGarbage");
    const { metrics } = await session.send("Performance.getMetrics");
    const value = (name) => metrics.find((metric) => metric.name === name)?.value ?? 0;
    const heapMiB = Math.round((value("JSHeapUsedSize") / 2 ** 20) * 100) / 100;
    samples.push({ heapMiB, nodes: value("Nodes"), listeners: value("JSEventListeners") });
  }
  await page.close();
  return { minutes, samples };
}

async function drive(load) {
  const client = fork(fileURLToPath(import.meta.url));
  const next = () => new Promise((resolve) => client.once("message", resolve));
  await next();
  client.send(load);
  const result = await next();
  client.disconnect();
  return result;
}

function median(values) {
  const sorted = values.toSorted((left, right) => left - right);
  return sorted[Math.floor(sorted.length / 2)];
}

function sleep(ms) {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
