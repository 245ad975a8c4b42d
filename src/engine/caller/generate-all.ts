import type { GenerateOptions, GenerateResult, Prompt } from "#engine/protocol";
import { listenTo } from "./abort-listener.ts";
import { boundedMap } from "./bounded-map.ts";
import { type RequestStarter, requestName } from "./request-starter.ts";
import { collectResult } from "./stream-item.ts";

/**
 * Completes all prompts, `atOnce` at a time, in their order. Options are checked first, even
 * without prompts. Rejects with the first failure, after cancelling the other prompts.
 */
export async function generateAll(
  starter: RequestStarter,
  prompts: readonly Prompt[],
  options: GenerateOptions,
  atOnce: () => number,
): Promise<GenerateResult[]> {
  const start = await starter.check(options);
  const { signal } = options;
  const stop = new AbortController();
  // A signal made by AbortSignal.any would stay attached to the caller's while that lives.
  const onAbort = () => stop.abort(signal?.reason);
  if (signal?.aborted) onAbort();
  else listenTo(signal, onAbort);
  try {
    return await boundedMap(prompts, atOnce(), async (prompt, place) => {
      const requestId = requestName(options.requestId, place, prompts.length);
      const active = await start(prompt, { requestId, signal: stop.signal });
      return collectResult(requestId, active.items);
    });
  } catch (error) {
    stop.abort(error);
    throw error;
  } finally {
    signal?.removeEventListener("abort", onAbort);
  }
}
