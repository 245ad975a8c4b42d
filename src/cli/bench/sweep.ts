/** `bench serve` with a list of loads: a run for each, one after the other. */
import { EngineError, messageOf } from "#base";
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

type Load = Pick<OnlineOptions, "requestRate" | "concurrencyMax">;

/**
 * A run for each load. Each has prompts of its own: those of the one before are in the cache.
 * `tell` receives a line for each load of several that failed altogether. Throws where all do.
 */
export async function benchLoads(
  options: OnlineOptions,
  { requestRates, concurrencies }: SweepLoads,
  tell: (line: string) => void,
): Promise<{ readonly runs: readonly OnlineRun[]; readonly failures: readonly LoadFailure[] }> {
  const loads = requestRates.flatMap((requestRate) =>
    concurrencies.map((concurrencyMax) => ({ requestRate, concurrencyMax })),
  );
  const runs: OnlineRun[] = [];
  const failures: LoadFailure[] = [];
  for (const [place, load] of loads.entries()) {
    try {
      runs.push(await benchServe({ ...options, ...load, seed: options.seed + place }));
    } catch (cause) {
      // The other loads are measured all the same: they may be what the server can bear.
      if (loads.length === 1) throw cause;
      failures.push({ load: loadText(load), cause });
      tell(`no request succeeded with ${loadText(load)}: ${messageOf(cause)}`);
    }
  }
  if (runs.length === 0) throw allFailed(options.url, failures);
  return { runs, failures };
}

/** A load of which no request succeeded. */
export interface LoadFailure {
  /** As its flag says it. */
  readonly load: string;
  readonly cause: unknown;
}

function loadText({ requestRate, concurrencyMax }: Load): string {
  const rate = Number.isFinite(requestRate) ? `--request-rate ${requestRate} ` : "";
  return `${rate}--concurrency ${concurrencyMax}`;
}

function allFailed(url: string, failures: readonly LoadFailure[]): EngineError {
  const cause = failures.at(-1)?.cause;
  const message = `Cannot measure ${url}: no request of any of ${failures.length} loads succeeded`;
  return new EngineError("NETWORK", message, { cause });
}
