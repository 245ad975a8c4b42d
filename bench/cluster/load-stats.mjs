// What a server did with traffic, as clients see it.

/** Gathers answers; times in ms of the wall clock. */
export class LoadStats {
  #ttft = [];
  #tbt = [];
  #total = [];
  #promptTokens = 0;
  #cachedTokens = 0;
  #usages = 0;
  #outputTokens = 0;
  #errors = {};

  add(answer) {
    if (answer.error !== null) {
      this.#errors[answer.error] = (this.#errors[answer.error] ?? 0) + 1;
      return;
    }
    this.#ttft.push(answer.firstMs);
    this.#total.push(answer.totalMs);
    const { usage } = answer;
    const outputTokens = usage?.completion_tokens ?? answer.chunks;
    this.#outputTokens += outputTokens;
    if (outputTokens > 1) this.#tbt.push((answer.lastMs - answer.firstMs) / (outputTokens - 1));
    if (usage == null) return;
    this.#usages++;
    this.#promptTokens += usage.prompt_tokens;
    this.#cachedTokens += usage.prompt_tokens_details?.cached_tokens ?? 0;
  }

  summary() {
    return {
      completed: this.#total.length,
      errors: this.#errors,
      withUsage: this.#usages,
      promptTokens: this.#promptTokens,
      outputTokens: this.#outputTokens,
      hitRate: this.#promptTokens === 0 ? null : this.#cachedTokens / this.#promptTokens,
      ttftMs: quantiles(this.#ttft),
      tbtMs: quantiles(this.#tbt),
      totalMs: quantiles(this.#total),
    };
  }
}

function quantiles(values) {
  const sorted = values.toSorted((a, b) => a - b);
  const at = (share) => sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))];
  const mean = sorted.reduce((sum, value) => sum + value, 0) / Math.max(1, sorted.length);
  return { mean, p50: at(0.5), p90: at(0.9), p99: at(0.99) };
}
