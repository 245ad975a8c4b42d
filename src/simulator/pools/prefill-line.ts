/** The prompts of one node in the order in which they were decided. */
import type { Clock } from "#base";
import type { BlockTable } from "#kvcache";
import type { PrefillJob, PrefillNode } from "./prefill-node.ts";

/** A prompt in the line. */
export interface LinedPrompt {
  readonly job: PrefillJob;
  /** What it is predicted to take. */
  readonly expectedMs: number;
  /** When its prefix is predicted to be there. */
  readonly prefixAtMs: number;
  isReady: boolean;
  lease: BlockTable | null;
}

/** One is computed, and the next one fills up its last step. */
const STARTED_MAX = 2;

/**
 * A prompt whose prefix is on its way keeps its place. While it is waited for, later ones go ahead
 * that are predicted to be done by then: a long prompt that came later would hold it up for
 * seconds, and the conductor has promised otherwise.
 */
export class PrefillLine {
  readonly #clock: Clock;
  readonly #node: PrefillNode;
  readonly #line: LinedPrompt[] = [];
  #started = 0;

  constructor(clock: Clock, node: PrefillNode) {
    this.#clock = clock;
    this.#node = node;
  }

  /** `prefixAtMs` null: what it reads is there. */
  enter(job: PrefillJob, expectedMs: number, prefixAtMs: number | null): LinedPrompt {
    const isReady = prefixAtMs === null;
    const times = { expectedMs, prefixAtMs: prefixAtMs ?? 0 };
    const prompt = { job: this.#ending(job), ...times, isReady, lease: null };
    this.#line.push(prompt);
    this.#advance();
    return prompt;
  }

  /** Its prefix came, held by the lease, or will not come. */
  ready(prompt: LinedPrompt, lease: BlockTable | null): void {
    prompt.isReady = true;
    prompt.lease = lease;
    this.#advance();
  }

  #ending(job: PrefillJob): PrefillJob {
    return {
      ...job,
      done: (ms) => {
        this.#started--;
        job.done(ms);
        this.#advance();
      },
    };
  }

  #advance(): void {
    while (this.#started < STARTED_MAX) {
      const at = this.#next();
      const [prompt] = at < 0 ? [] : this.#line.splice(at, 1);
      if (prompt === undefined) return;
      this.#started++;
      this.#node.submit(prompt.job, prompt.lease);
    }
  }

  /** The first one; while its prefix is waited for, one that ends before that. -1: none. */
  #next(): number {
    const nowMs = this.#clock.nowMs();
    let freeMs = Number.POSITIVE_INFINITY;
    for (let at = 0; at < this.#line.length; at++) {
      const prompt = this.#line[at];
      if (prompt === undefined) break;
      if (prompt.isReady && prompt.expectedMs <= freeMs) return at;
      if (!prompt.isReady) freeMs = Math.min(freeMs, prompt.prefixAtMs - nowMs);
      if (freeMs <= 0) break;
    }
    return -1;
  }
}
