/** Loads that shift between long prompts and long outputs, made up by a seed. */
import { seedFrom, uniformAt } from "../../dist/base/index.js";

const TRACE_BLOCK = 512;
const MINUTE_MS = 60_000;

/** Of requests of one kind: how many come a second, and how long they are, in tokens. */
const PROMPTS = { perSecond: 3, input: [12_000, 20_000], output: [20, 60] };
const OUTPUTS = { perSecond: 10, input: [1000, 2000], output: [600, 1200] };
const MIXED = { perSecond: 3, input: [4000, 12_000], output: [200, 600] };

const phases = (minutes, times, ...kinds) =>
  Array.from({ length: times }, () => kinds.map((kind) => ({ minutes, ...kind }))).flat();
const paced = (kind, factor) => ({ ...kind, perSecond: kind.perSecond * factor });

/** Phases of each load, one behind the other. */
export const LOADS = {
  "long phases": phases(10, 1, PROMPTS, OUTPUTS, PROMPTS),
  "long phases, slower": phases(
    10,
    1,
    ...[PROMPTS, OUTPUTS, PROMPTS].map((kind) => paced(kind, 0.7)),
  ),
  "outputs, then prompts": phases(10, 1, OUTPUTS, PROMPTS),
  "phases of 2 minutes": phases(2, 6, PROMPTS, OUTPUTS),
  "bursts of prompts": Array.from({ length: 6 }, () => [
    { minutes: 4, ...MIXED },
    { minutes: 1, ...paced(PROMPTS, 1.5) },
  ]).flat(),
  "bursts of outputs": Array.from({ length: 6 }, () => [
    { minutes: 4, ...MIXED },
    { minutes: 1, ...paced(OUTPUTS, 1.5) },
  ]).flat(),
  steady: phases(30, 1, MIXED),
};

/** Poisson arrivals; no two prompts share a beginning. */
export function shiftingTrace(name, seed) {
  const source = seedFrom(seed);
  const requests = [];
  let drawn = 0;
  let block = 1;
  let beginMs = 0;
  const draw = () => uniformAt(source, drawn++, 0);
  const between = ([low, high]) => low + Math.floor(draw() * (high - low));
  for (const { minutes, perSecond, input, output } of LOADS[name]) {
    const endMs = beginMs + minutes * MINUTE_MS;
    let timestampMs = beginMs;
    for (;;) {
      timestampMs += (-Math.log(1 - draw()) / perSecond) * 1000;
      if (timestampMs >= endMs) break;
      const [inputTokens, outputTokens] = [between(input), between(output)];
      const ids = Int32Array.from({ length: Math.floor(inputTokens / TRACE_BLOCK) }, () => block++);
      requests.push({ timestampMs, inputTokens, outputTokens, ids, priorities: null });
    }
    beginMs = endMs;
  }
  return { kind: "blocks", blockTokens: TRACE_BLOCK, blockRefs: block - 1, requests };
}
