/**
 * node bench/reproduction/rejection.mjs [--loads 5+2@2.5@60,...] [--seeds 1,2,3] [--out FILE]
 *
 * Table 3 of arXiv 2407.00079, and its oscillation: rejected requests under overload where decoding
 * is looked at late (its baseline), at arrival, and as predicted. A load is `prefill+decode nodes @
 * speed @ TBT deadline in ms`; TTFT <= 30 s. Arrivals are moved within their tick of 3 s by the
 * seed. `good`: completed within both deadlines; `late`: rejected with their prompts computed;
 * `decodeSwing`: the standard deviation of the requests that decode over their mean, without the
 * first and last tenth; `poolsTogether`: the correlation of both pools' loads, below 0 where they
 * swing in opposite directions. The paper replayed another trace, which is not public in full.
 */
import { seedFrom, uniformAt } from "../../dist/base/index.js";
import { runTable } from "./runs.mjs";

const PAPER = { late: 4183, arrival: 3771, predicted: 3589 };
const LOADS = "8+8@2@100,5+2@2.5@60,4+2@2@50,12+2@3@100";
const TICK_MS = 3000;
const POINTS = 100;

await runTable({
  name: "rejection",
  options: { loads: { type: "string", default: LOADS } },
  rows: ({ loads }) =>
    loads.split(",").flatMap((load) =>
      Object.keys(PAPER).map((rejection) => {
        const [split, speed, tbtDeadlineMs] = load.split("@");
        const [prefillNodes, decodeNodes] = split.split("+").map(Number);
        return {
          row: { load, rejection, paperRejected: PAPER[rejection] },
          ...{ pools: { prefillNodes, decodeNodes }, speed: Number(speed), change: jittered },
          conductor: {
            ...{ rejection, ttftDeadlineMs: 30_000, tbtDeadlineMs: Number(tbtDeadlineMs) },
          },
        };
      }),
    ),
  summary: (result) => {
    const { queues, decoding } = middleOf(result);
    return {
      rejected: result.requests - result.completed,
      late: result.rejected["tbt-late"] ?? 0,
      ttft: result.rejected.ttft ?? 0,
      good: Math.round(result.goodput * result.requests),
      ttftS: result.ttftMs.mean / 1000,
      tbtTailMs: result.tbtTailMs.mean,
      decodeSwing: deviation(decoding) / mean(decoding),
      poolsTogether: correlation(queues, decoding),
    };
  },
  after: ([{ loads }]) => {
    const step = Math.max(1, Math.ceil(loads.length / POINTS));
    const kept = loads.filter((_, at) => at % step === 0);
    return {
      series: {
        atS: kept.map(({ atMs }) => Math.round(atMs / 1000)),
        queueS: kept.map(({ prefillQueueMs }) => Math.round(prefillQueueMs / 100) / 10),
        decoding: kept.map(({ decoding }) => Math.round(decoding * 10) / 10),
      },
    };
  },
});

/** The trace's times stand on a grid: each row comes somewhere in its tick. */
function jittered(trace, seed) {
  const source = seedFrom(seed);
  const requests = trace.requests.map((request, at) => ({
    ...request,
    timestampMs: request.timestampMs + TICK_MS * uniformAt(source, at, 0),
  }));
  return { ...trace, requests: requests.sort((a, b) => a.timestampMs - b.timestampMs) };
}

function middleOf({ loads, endMs }) {
  const middle = loads.filter(({ atMs }) => atMs >= endMs * 0.1 && atMs <= endMs * 0.9);
  const queues = middle.map(({ prefillQueueMs }) => prefillQueueMs);
  return { queues, decoding: middle.map((load) => load.decoding) };
}

function mean(values) {
  return values.reduce((sum, value) => sum + value, 0) / Math.max(values.length, 1);
}

function deviation(values) {
  const middle = mean(values);
  return Math.sqrt(mean(values.map((value) => (value - middle) ** 2)));
}

function correlation(a, b) {
  const [middleA, middleB] = [mean(a), mean(b)];
  const together = mean(a.map((value, at) => (value - middleA) * ((b[at] ?? 0) - middleB)));
  const apart = deviation(a) * deviation(b);
  return apart > 0 ? together / apart : 0;
}
