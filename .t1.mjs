import { costPreset } from "./dist/engine/mock/index.js";
import { readTrace, SimClock, SimWorker } from "./dist/simulator/index.js";

const model = costPreset("h200-8b");
console.log(model);
const trace = await readTrace("../shared/traces/conversation_trace.jsonl", 512);
const clock = new SimClock();
const N = 8;
const speed = Number(process.argv[2] ?? 1);
const BT = Number(process.argv[3] ?? 512);
const workers = Array.from(
  { length: N },
  (_, i) =>
    new SimWorker({
      id: `w${i}`,
      clock,
      model,
      blockTokens: BT,
      blocks: [Math.floor((800 * 512) / BT), 0, 0],
    }),
);
const until = 600_000;
let n = 0,
  done = 0,
  cached = 0,
  input = 0;
const ttft = [];
const tokensOf = (r) => {
  const t = new Int32Array(r.inputTokens);
  for (let b = 0; b * 512 < t.length; b++) {
    const id = r.ids[b];
    for (let k = b * 512; k < Math.min(t.length, b * 512 + 512); k++)
      t[k] = ((id * 512 + (k & 511)) % 1000003) + 1;
  }
  return t;
};
let at = 0;
const next = () => {
  const r = trace.requests[at];
  if (!r || r.timestampMs > until) return;
  clock.at(r.timestampMs / speed, () => {
    at++;
    const w = workers[n++ % N];
    input += r.inputTokens;
    w.submit(
      { id: `r${n}`, promptTokenIds: tokensOf(r), outputTokens: r.outputTokens },
      {
        end(o) {
          done++;
          cached += o.cachedTokens;
          ttft.push(o.firstTokenMs - o.submittedMs);
        },
      },
    );
    next();
  });
};
next();
const t0 = performance.now();
clock.run();
const t = performance.now() - t0;
ttft.sort((a, b) => a - b);
console.log({
  n,
  done,
  sim: clock.nowMs(),
  wall: t,
  hit: cached / input,
  p50: ttft[n >> 1],
  p90: ttft[Math.floor(n * 0.9)],
  busy: workers.map((w) => Math.round((w.busyMs / clock.nowMs()) * 100) / 100),
});
