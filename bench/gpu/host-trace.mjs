/** Times calls of methods by wrapping them: what the host does, and when. */
import { PerformanceObserver } from "node:perf_hooks";
import { setTimeout as sleep } from "node:timers/promises";

export class HostTrace {
  /** [{ phase, start, end }] in milliseconds of performance.now(), in the order of their ends. */
  #spans = [];
  #on = false;

  /** Times `names` of a class as `phase`, up to each call's return; skips unknown names. */
  watch(Class, names, phase) {
    for (const name of names) {
      const method = Class?.prototype?.[name];
      if (typeof method !== "function") continue;
      const trace = this;
      Class.prototype[name] = function timed(...given) {
        if (!trace.#on) return method.apply(this, given);
        const start = performance.now();
        try {
          return method.apply(this, given);
        } finally {
          trace.#spans.push({ phase, start, end: performance.now() });
        }
      };
    }
  }

  /** Takes what passed since the newest call of `phase` returned as a phase of its own. */
  addSince(phase, rest) {
    const before = this.#on ? this.#spans.findLast((span) => span.phase === phase) : undefined;
    if (before === undefined) return;
    this.#spans.push({ phase: rest, start: before.end, end: performance.now() });
  }

  start() {
    this.#spans = [];
    this.#on = true;
  }

  stop() {
    this.#on = false;
    return this.#spans;
  }
}

/** Watches what the host does for a step, by phase; the classes are those of the build. */
export function watchStep(trace, { Scheduler, CommandBuilder, Decoder, Sampler, CudaEvent }) {
  trace.watch(Scheduler, ["plan", "begin"], "plan");
  trace.watch(CommandBuilder, ["build"], "stage");
  trace.watch(Decoder, ["stage"], "stage");
  trace.watch(Decoder, ["forward"], "launch");
  trace.watch(Sampler, ["start"], "launch");
  trace.watch(CudaEvent, ["wait"], "wait");
  trace.watch(Scheduler, ["commit"], "commit");
}

/** Watches the collection of garbage; `stop` resolves with its spans, of phase "gc". */
export function watchCollections() {
  const spans = [];
  const observer = new PerformanceObserver((list) => {
    for (const { startTime, duration } of list.getEntries()) {
      spans.push({ phase: "gc", start: startTime, end: startTime + duration });
    }
  });
  observer.observe({ entryTypes: ["gc"] });
  return {
    stop: async () => {
      // The last ones are told when the thread has nothing else to do.
      await sleep(10);
      observer.disconnect();
      return spans;
    },
  };
}

/** Milliseconds of each phase between two times. */
export function phasesBetween(spans, from, to) {
  const sums = {};
  for (const { phase, start, end } of spans) {
    const overlap = Math.min(end, to) - Math.max(start, from);
    if (overlap > 0) sums[phase] = (sums[phase] ?? 0) + overlap;
  }
  return sums;
}

/** Spans that may lie in each other as pieces that do not: each is the innermost span's. */
export function piecesOf(spans) {
  const edges = spans.flatMap((span) => [
    { at: span.start, span, opens: true },
    { at: span.end, span, opens: false },
  ]);
  const pieces = [];
  const open = new Set();
  let start = 0;
  for (const { at, span, opens } of edges.sort((a, b) => a.at - b.at)) {
    // The newest of those that are open.
    const inner = [...open].at(-1);
    if (inner !== undefined && at > start) pieces.push({ phase: inner.phase, start, end: at });
    start = at;
    if (opens) open.add(span);
    else open.delete(span);
  }
  return pieces;
}
