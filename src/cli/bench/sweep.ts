/** `bench serve` with a list of loads: a run for each, one after the other. */
import { EngineError } from "#base";
import { benchServe, type OnlineOptions, type OnlineRun } from "./online.ts";

/** The field that differs from run to run. */
export type SweptAxis = "requestRate" | "concurrencyMax";

export interface SweepLoads {
  /** Requests per second; Infinity: all at once. */
  readonly requestRates: readonly number[];
  readonly concurrencies: readonly number[];
}

/** What differs from run to run; null: there is one run. Throws where both differ. */
export function sweptAxis({ requestRates, concurrencies }: SweepLoads): SweptAxis | null {
  if (requestRates.length > 1 && concurrencies.length > 1) {
    throw new EngineError(
      "INVALID_ARGUMENT",
      "Cannot measure several loads: wanted a list for --request-rate or for --concurrency, " +
        "current value is a list for both; give one of them a single number",
      { param: "request-rate" },
    );
  }
  if (requestRates.length > 1) return "requestRate";
  return concurrencies.length > 1 ? "concurrencyMax" : null;
}

/** A run for each load. Each has prompts of its own: those of the one before are in the cache. */
export async function benchLoads(
  options: OnlineOptions,
  { requestRates, concurrencies }: SweepLoads,
): Promise<readonly OnlineRun[]> {
  const loads = requestRates.flatMap((requestRate) =>
    concurrencies.map((concurrencyMax) => ({ requestRate, concurrencyMax })),
  );
  const runs: OnlineRun[] = [];
  for (const [place, load] of loads.entries()) {
    runs.push(await benchServe({ ...options, ...load, seed: options.seed + place }));
  }
  return runs;
}
