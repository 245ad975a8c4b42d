import { type Clock, EngineError } from "#base";
import type { Device } from "#devices";
import type { Encoder } from "#models";
import type { EngineStats } from "./api.ts";
import type { EngineStep } from "./engine.ts";
import type { EngineRequest } from "./protocol.ts";

const MS_PER_SECOND = 1000;

export interface EncoderEngineParts {
  readonly device: Device;
  readonly encoder: Encoder;
  readonly clock: Clock;
  readonly stepTokensMax: number;
  readonly sequencesMax: number;
  readonly waitingMax: number;
}

interface WaitingText {
  readonly requestId: string;
  readonly tokenIds: readonly number[];
}

/** The step loop of an encoder: whole texts in arrival order, as many as a step takes. */
export class EncoderEngine {
  readonly #parts: EncoderEngineParts;
  #waiting: WaitingText[] = [];
  #steps = 0;
  #promptTokens = 0;

  constructor(parts: EncoderEngineParts) {
    this.#parts = parts;
  }

  add(_request: EngineRequest): never {
    throw new EngineError(
      "INVALID_ARGUMENT",
      "Cannot generate: this model is an encoder, it makes embeddings only",
      { param: "model" },
    );
  }

  /** Throws PROMPT_TOO_LONG and QUEUE_FULL. */
  addEmbedding(requestId: string, tokenIds: readonly number[]): void {
    const { encoder, stepTokensMax, waitingMax } = this.#parts;
    const most = Math.min(stepTokensMax, encoder.spec.contextTokensMax);
    if (tokenIds.length > most) {
      throw new EngineError(
        "PROMPT_TOO_LONG",
        `Cannot embed text: it must fit ${most} tokens, current value is ${tokenIds.length}`,
        { param: "input" },
      );
    }
    if (this.#waiting.length >= waitingMax) {
      throw new EngineError(
        "QUEUE_FULL",
        `Cannot queue text: at most ${waitingMax} may wait; try again later`,
      );
    }
    this.#waiting.push({ requestId, tokenIds });
  }

  abort(requestId: string): void {
    this.#waiting = this.#waiting.filter((text) => text.requestId !== requestId);
  }

  get busy(): boolean {
    return this.#waiting.length > 0;
  }

  async step(): Promise<EngineStep | null> {
    const { device, encoder, clock } = this.#parts;
    const batch = this.#takeBatch();
    if (batch.length === 0) return null;
    const startedMs = clock.nowMs();
    const tokenIds = Int32Array.from(batch.flatMap((text) => text.tokenIds));
    const positions = Int32Array.from(batch.flatMap((text) => [...text.tokenIds.keys()]));
    const starts = new Int32Array(batch.length + 1);
    batch.forEach((text, place) => {
      starts[place + 1] = (starts[place] ?? 0) + text.tokenIds.length;
    });
    const tokens = tokenIds.length;
    encoder.stage({ tokens, sequences: batch.length, tokenIds, positions, starts });
    encoder.forward();
    const pooled = await device.readF32(encoder.meanPooled(true));
    const size = encoder.spec.hiddenSize;
    const embeddings = batch.map(({ requestId }, row) => ({
      requestId,
      embedding: pooled.slice(row * size, (row + 1) * size),
    }));
    this.#steps += 1;
    this.#promptTokens += tokens;
    const seconds = (clock.nowMs() - startedMs) / MS_PER_SECOND;
    const report = { stepTokens: tokens, sequences: batch.length, seconds, planSeconds: 0 };
    return { outputs: [], embeddings, report };
  }

  stats(): EngineStats {
    return {
      running: 0,
      waiting: this.#waiting.length,
      freeBlocks: 0,
      heldBlocks: 0,
      cachedBlocks: 0,
      totalBlocks: 0,
      steps: this.#steps,
      preemptions: 0,
      promptTokens: this.#promptTokens,
      generatedTokens: 0,
      prefixQueriedTokens: 0,
      prefixHitTokens: 0,
    };
  }

  async dispose(): Promise<void> {
    this.#waiting = [];
  }

  #takeBatch(): WaitingText[] {
    const { stepTokensMax, sequencesMax } = this.#parts;
    let tokens = 0;
    let count = 0;
    for (const text of this.#waiting) {
      tokens += text.tokenIds.length;
      if (tokens > stepTokensMax || count === sequencesMax) break;
      count += 1;
    }
    return this.#waiting.splice(0, count);
  }
}
