import type { TrafficOutlook } from "./kv-cost.ts";

/** Means are over about so many of the last requests. */
const REQUESTS = 256;
/** Believed before the first output has ended. */
const OUTPUT_TOKENS = 200;

/** Measures the traffic: how much of prompts is cached, and how long outputs are. */
export class Traffic {
  #outputs = 0;
  #outputTokens = OUTPUT_TOKENS;
  #promptTokens = 0;
  #cachedTokens = 0;

  served(promptTokens: number, cachedTokens: number): void {
    const keep = 1 - 1 / REQUESTS;
    this.#promptTokens = this.#promptTokens * keep + promptTokens;
    this.#cachedTokens = this.#cachedTokens * keep + cachedTokens;
  }

  ended(outputTokens: number): void {
    this.#outputs = Math.min(this.#outputs + 1, REQUESTS);
    this.#outputTokens += (outputTokens - this.#outputTokens) / this.#outputs;
  }

  outlook(): TrafficOutlook {
    const hitRate = this.#promptTokens > 0 ? this.#cachedTokens / this.#promptTokens : 0;
    return { outputTokens: this.#outputTokens, hitRate };
  }
}
