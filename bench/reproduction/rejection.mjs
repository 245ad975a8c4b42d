/**
 * node bench/reproduction/rejection.mjs [--pools 8+8,12+4] [--speeds 2,3] [--seeds 1] [--out FILE]
 *
 * Table 3 of arXiv 2407.00079: rejected requests under overload where decoding is looked at late
 * (its baseline), at arrival, and as predicted. TTFT <= 30 s, TBT <= 100 ms. `lateShare`: of
 * rejected requests, those whose prompts had been computed; `decodeSwing`: the standard deviation
 * of the requests that decode over their mean, and `poolsTogether`: the correlation of both pools'
 * loads, below 0 where they swing in opposite directions. The paper replayed another trace, of
 * 23,000 requests, which is not public in full: only its order can be compared.
 */
import { runTable } from "./runs.mjs";

const PAPER = { late: 4183, arrival: 3771, predicted: 3589 };

await runTable({
  name: "rejection",
  options: {
    pools: { type: "string", default: "8+8,12+4" },
    speeds: { type: "string", default: "2,3" },
  },
  rows: ({ pools, speeds }) =>
    pools.split(",").flatMap((split, place) =>
      Object.keys(PAPER).map((rejection) => {
        const [prefillNodes, decodeNodes] = split.split("+").map(Number);
        const speed = Number(speeds.split(",")[place]);
        return {
          row: { prefillNodes, decodeNodes, speed, rejection, paperRejected: PAPER[rejection] },
          ...{ pools: { prefillNodes, decodeNodes }, speed },
          conductor: { rejection, ttftDeadlineMs: 30_000, tbtDeadlineMs: 100 },
        };
      }),
    ),
  after: ([first]) => {
    const loads = first.loads.filter(({ atMs }) => atMs <= first.endMs * 0.9);
    const queues = loads.map(({ prefillQueueMs }) => prefillQueueMs);
    const decoding = loads.map((load) => load.decoding);
    return {
      decodeSwing: Number((deviation(decoding) / mean(decoding)).toFixed(3)),
      poolsTogether: Number(correlation(queues, decoding).toFixed(3)),
    };
  },
});

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
