/** Chunks of prompts that go through several stages, each of which has as many layers. */
import { type NodeCosts, promptPartMs } from "./node-costs.ts";

/**
 * When chunks leave the last of some equal stages. A stage computes one chunk at a time, in order.
 * Handing hidden states on is left out: of 2,048 tokens of LLaMA3-70B they are 67 MB, less than a
 * millisecond between the paper's nodes.
 */
export class StageTimes {
  readonly #freeMs: number[];

  constructor(stages: number) {
    this.#freeMs = new Array<number>(stages).fill(0);
  }

  /** When the first stage has done what it has. */
  get firstFreeMs(): number {
    return this.#freeMs[0] ?? 0;
  }

  /** When a chunk has passed all stages that may begin at `readyMs` and takes `ms` of one stage. */
  pass(readyMs: number, ms: number): number {
    const share = ms / this.#freeMs.length;
    let atMs = readyMs;
    for (const [stage, freeMs] of this.#freeMs.entries()) {
      atMs = Math.max(atMs, freeMs) + share;
      this.#freeMs[stage] = atMs;
    }
    return atMs;
  }
}

/** ms until a prompt of `tokens` is computed by idle stages, in chunks. */
export function stagedPromptMs(
  costs: NodeCosts,
  tokens: number,
  { stages, chunkTokens }: { readonly stages: number; readonly chunkTokens: number },
): number {
  const times = new StageTimes(stages);
  let endMs = 0;
  for (let start = 0; start < tokens; start += chunkTokens) {
    const end = Math.min(start + chunkTokens, tokens);
    const ms = costs.prefillStepMs + promptPartMs(costs, start, end);
    endMs = times.pass(times.firstFreeMs, ms);
  }
  return costs.promptMs + endMs;
}
