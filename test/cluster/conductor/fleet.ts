/** A conductor whose predictions are round numbers. */
import {
  type Accepted,
  Conductor,
  ConductorConfig,
  type ConductorRequest,
  type Decision,
  DecodeEstimator,
  PrefillEstimator,
  seededRng,
} from "#cluster";

/** 1 ms a prompt token, whatever its place; steps of 10 ms and 1 ms a sequence. */
export function conductorOf(
  settings: Record<string, unknown> = {},
  { seed = 1, bytesPerToken = 1000 }: { seed?: number; bytesPerToken?: number } = {},
) {
  const clock = { ms: 0, nowMs: () => clock.ms };
  const conductor = new Conductor({
    ...{ clock, rng: seededRng(seed), bytesPerToken },
    config: ConductorConfig.parse({ outputTokens: 100, decodeMs: 1000, ...settings }),
    prefillOf: () => new PrefillEstimator(points()),
    decodeOf: () => new DecodeEstimator(steps()),
  });
  const join = (id: string, role: "prefill" | "decode" | "both" | "kv" = "prefill") =>
    conductor.join({ id, role, kvTokens: 100_000, networkBytesPerMs: 10_000 });
  return { conductor, clock, join };
}

export function request(id: string, promptTokens = 1000): ConductorRequest {
  return { id, promptTokens, outputTokens: null };
}

export function accepted(decision: Decision): Accepted {
  if (decision.type === "accepted") return decision;
  throw new Error(`rejected: ${decision.reason}`);
}

function points() {
  return [100, 1000, 10_000, 100_000].flatMap((promptTokens) =>
    [0, 0.5, 0.9].map((part) => ({
      promptTokens,
      prefixTokens: part * promptTokens,
      ms: promptTokens - part * promptTokens,
    })),
  );
}

function steps() {
  return [1, 10, 100].flatMap((sequences) =>
    [100, 10_000].map((tokens) => ({
      ...{ sequences, contextTokens: sequences * tokens },
      ms: 10 + sequences,
    })),
  );
}
