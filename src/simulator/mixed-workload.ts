import { type Seed, seedFrom, uniformAt } from "#base";
import { PRIORITY_DEFAULT } from "#kvcache";
import type { Trace, TraceRequest } from "./trace.ts";

/** Lengths and frequencies; lengths in blocks, both ends included. */
const BLOCK_TOKENS = 64;
const SYSTEM_PROMPTS = 32;
const SYSTEM_BLOCKS = [8, 64] as const;
const QUESTION_BLOCKS = [1, 8] as const;
const CHATS = 64;
const TURN_BLOCKS = [2, 12] as const;
const TURNS = [3, 20] as const;
const ONE_OFF_BLOCKS = [32, 256] as const;
const OUTPUT_TOKENS = [16, 512] as const;
const ARRIVAL_MS = 100;
/** Of all requests; the rest are one-off. */
const SYSTEM_SHARE = 0.5;
const CHAT_SHARE = 0.3;

/** Priorities that the requests set: keep the system prompts, and nothing of one-off work. */
const SYSTEM_PRIORITY = 100;
const ONE_OFF_PRIORITY = 10;

interface SystemPrompt {
  readonly ids: readonly number[];
}

interface Chat {
  readonly ids: number[];
  turns: number;
}

/**
 * A load of three kinds, the same for the same seed: questions behind one of some system prompts,
 * the first ones asked most; turns of long chats, each of which repeats the whole chat; and one-off
 * requests, long and never seen again. Sets a priority per block.
 */
export function mixedWorkload({
  seed,
  requests,
}: {
  readonly seed: number;
  readonly requests: number;
}): Trace {
  const generator = new WorkloadGenerator(seedFrom(seed));
  const made = Array.from({ length: requests }, (_, index) => generator.next(index));
  const blockRefs = made.reduce((sum, { ids }) => sum + ids.length, 0);
  return { requests: made, kind: "blocks", blockTokens: BLOCK_TOKENS, blockRefs };
}

class WorkloadGenerator {
  readonly #seed: Seed;
  readonly #systemPrompts: readonly SystemPrompt[];
  readonly #chats: Chat[];
  #draws = 0;
  #ids = 0;

  constructor(seed: Seed) {
    this.#seed = seed;
    this.#systemPrompts = Array.from({ length: SYSTEM_PROMPTS }, () => ({
      ids: this.#newIds(SYSTEM_BLOCKS),
    }));
    this.#chats = Array.from({ length: CHATS }, () => this.#newChat());
  }

  next(index: number): TraceRequest {
    const kind = this.#uniform();
    if (kind < SYSTEM_SHARE) return this.#question(index);
    if (kind < SYSTEM_SHARE + CHAT_SHARE) return this.#turn(index);
    const ids = this.#newIds(ONE_OFF_BLOCKS);
    return this.#request(index, ids, () => ONE_OFF_PRIORITY);
  }

  #question(index: number): TraceRequest {
    const { ids } = this.#someSystemPrompt();
    const all = [...ids, ...this.#newIds(QUESTION_BLOCKS)];
    return this.#request(index, all, (at) =>
      at < ids.length ? SYSTEM_PRIORITY : PRIORITY_DEFAULT,
    );
  }

  #turn(index: number): TraceRequest {
    const place = Math.floor(this.#uniform() * CHATS);
    const chat = this.#chats[place] ?? this.#newChat();
    chat.ids.push(...this.#newIds(TURN_BLOCKS));
    chat.turns--;
    if (chat.turns === 0) this.#chats[place] = this.#newChat();
    return this.#request(index, chat.ids, () => PRIORITY_DEFAULT);
  }

  /** The k-th most popular is asked 1 / k times as often as the first. */
  #someSystemPrompt(): SystemPrompt {
    const place = Math.floor(SYSTEM_PROMPTS ** this.#uniform());
    return this.#systemPrompts[place - 1] ?? { ids: [] };
  }

  #newChat(): Chat {
    return { ids: [], turns: this.#between(TURNS) };
  }

  #newIds(lengths: readonly [number, number]): number[] {
    return Array.from({ length: this.#between(lengths) }, () => this.#ids++);
  }

  #request(
    index: number,
    ids: readonly number[],
    priorityOf: (at: number) => number,
  ): TraceRequest {
    return {
      timestampMs: index * ARRIVAL_MS,
      inputTokens: ids.length * BLOCK_TOKENS,
      outputTokens: this.#between(OUTPUT_TOKENS),
      ids: Int32Array.from(ids),
      priorities: Uint8Array.from(ids, (_, at) => priorityOf(at)),
    };
  }

  #between([least, most]: readonly [number, number]): number {
    return least + Math.floor(this.#uniform() * (most - least + 1));
  }

  #uniform(): number {
    return uniformAt(this.#seed, this.#draws++);
  }
}
