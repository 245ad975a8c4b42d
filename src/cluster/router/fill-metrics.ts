/** What workers that give memory alone were told to fetch. */
import { Counter, type Registry } from "prom-client";

/** `dropped`: others went before, or who had the blocks is gone. */
export type FillOutcome = "stored" | "failed" | "dropped";

export class FillMetrics {
  readonly #fills: Counter<"outcome">;
  readonly #tokens: Counter;

  constructor(registry: Registry) {
    const registers = [registry];
    this.#fills = new Counter({
      name: "perigee_router_kv_fills_total",
      help: "Prompts that workers of the role kv were to fetch, by what became of it.",
      labelNames: ["outcome"],
      registers,
    });
    this.#tokens = new Counter({
      name: "perigee_router_kv_fill_tokens_total",
      help: "Tokens whose keys and values they fetched.",
      registers,
    });
  }

  ended(outcome: FillOutcome, count = 1): void {
    this.#fills.inc({ outcome }, count);
  }

  stored(tokens: number): void {
    this.ended("stored");
    this.#tokens.inc(tokens);
  }
}
