/** Times calls of methods by wrapping them: what the host does, and when. */

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

  start() {
    this.#spans = [];
    this.#on = true;
  }

  stop() {
    this.#on = false;
    return this.#spans;
  }
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
