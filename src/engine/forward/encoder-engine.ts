import { type Clock, EngineError } from "#base";
import type { Device } from "#devices";
import type { StepEngine } from "#engine/loop";
import {
  checkEmbedLength,
  type EmbeddingOutput,
  type EmbedRequest,
  type LoopStats,
  type RequestKey,
  type StepOutput,
  stepFailure,
} from "#engine/protocol";
import { type Encoder, isMeanAlone, RowPool, type TextEmbedding } from "#models";

const MS_PER_SECOND = 1000;

export interface EncoderEngineParts {
  readonly device: Device;
  readonly encoder: Encoder;
  readonly embedding: TextEmbedding;
  /** The encoder's head scores pairs: its output, of one element, is each text's vector. */
  readonly scoresPairs: boolean;
  readonly clock: Clock;
  /** At least the longest text. */
  readonly stepTokensMax: number;
  readonly sequencesMax: number;
  readonly waitingMax: number;
}

/** The step loop of an encoder: whole texts in arrival order, as many as fit a step. */
export class EncoderEngine implements StepEngine {
  readonly #parts: EncoderEngineParts;
  #waiting: EmbedRequest[] = [];
  /** Texts in the step under way. */
  #running = 0;
  #steps = 0;
  #promptTokens = 0;

  constructor(parts: EncoderEngineParts) {
    this.#parts = parts;
  }

  /** Throws PROMPT_TOO_LONG and QUEUE_FULL. */
  addEmbedding(request: EmbedRequest): void {
    const { embedding, waitingMax } = this.#parts;
    checkEmbedLength(request, embedding.tokensMax);
    if (this.#waiting.length >= waitingMax) {
      throw new EngineError(
        "QUEUE_FULL",
        `Cannot queue text: at most ${waitingMax} may wait, current value is ` +
          `${this.#waiting.length + 1}; try again later`,
      );
    }
    this.#waiting.push(request);
  }

  /** Keys of waiting texts. */
  get keys(): RequestKey[] {
    return this.#waiting.map(({ key }) => key);
  }

  /** Drops a waiting text. A running text is computed to its end, and its vector is unused. */
  abort(key: RequestKey): void {
    this.#waiting = this.#waiting.filter((text) => text.key !== key);
  }

  /** Null when nothing waits. Never rejects for a failing step. */
  async step(): Promise<StepOutput | null> {
    const { clock } = this.#parts;
    const batch = this.#takeBatch();
    if (batch.length === 0) return null;
    const startedMs = clock.nowMs();
    const tokens = batch.reduce((sum, text) => sum + text.promptTokenIds.length, 0);
    this.#steps += 1;
    this.#running = batch.length;
    const result = await this.#compute(batch);
    this.#running = 0;
    if (result.failures.length === 0) this.#promptTokens += tokens;
    const seconds = (clock.nowMs() - startedMs) / MS_PER_SECOND;
    const report = { stepTokens: tokens, sequences: batch.length, seconds, planSeconds: 0 };
    return { outputs: [], ...result, report };
  }

  stats(): LoopStats {
    return {
      running: this.#running,
      waiting: this.#waiting.length,
      paused: 0,
      uncomputedTokens: this.#waiting.reduce((sum, text) => sum + text.promptTokenIds.length, 0),
      freeBlocks: 0,
      heldBlocks: 0,
      cachedBlocks: 0,
      totalBlocks: 0,
      steps: this.#steps,
      preemptions: 0,
      promptTokens: this.#promptTokens,
      cachedPromptTokens: 0,
      computedPromptTokens: this.#promptTokens,
      generatedTokens: 0,
      ...{ drafts: 0, draftedTokens: 0, acceptedTokens: 0, acceptedPerPosition: [] },
      prefixQueriedTokens: 0,
      prefixHitTokens: 0,
      swapPreemptions: 0,
      forks: 0,
      loads: 0,
    };
  }

  async dispose(): Promise<void> {
    this.#waiting = [];
  }

  /** A vector for every text, or a failure for every text. */
  async #compute(batch: readonly EmbedRequest[]): Promise<Pick<StepOutput, BatchResult>> {
    try {
      return { embeddings: await this.#embed(batch), failures: [] };
    } catch (thrown) {
      const error = stepFailure(thrown);
      return { embeddings: [], failures: batch.map(({ key }) => ({ key, error })) };
    }
  }

  async #embed(batch: readonly EmbedRequest[]): Promise<EmbeddingOutput[]> {
    const { encoder } = this.#parts;
    const tokens = batch.reduce((sum, text) => sum + text.promptTokenIds.length, 0);
    const tokenIds = new Int32Array(tokens);
    const tokenTypes = new Int32Array(tokens);
    const starts = new Int32Array(batch.length + 1);
    batch.forEach(({ promptTokenIds, secondFrom }, place) => {
      const start = starts[place] ?? 0;
      const end = start + promptTokenIds.length;
      tokenIds.set(promptTokenIds, start);
      if (secondFrom !== undefined) tokenTypes.fill(1, start + secondFrom, end);
      starts[place + 1] = end;
    });
    encoder.stage({ tokens, sequences: batch.length, tokenIds, tokenTypes, starts });
    encoder.forward();
    const skipped = batch.map(({ skippedTokens = 0 }) => skippedTokens);
    const vectors = await this.#pool(starts, skipped);
    return batch.map(({ key }, row) => ({ key, embedding: vectors[row] ?? new Float32Array() }));
  }

  /** A vector of each text in the batch that was just computed. */
  async #pool(starts: Int32Array, skipped: readonly number[]): Promise<readonly Float32Array[]> {
    const { device, encoder, embedding, scoresPairs } = this.#parts;
    const { pooling } = embedding;
    if (scoresPairs) {
      const scores = await device.readF32(encoder.scores());
      return skipped.map((_, text) => scores.slice(text, text + 1));
    }
    const size = encoder.spec.hiddenSize;
    if (isMeanAlone(pooling) && skipped.every((count) => count === 0)) {
      const pooled = await device.readF32(encoder.meanPooled(pooling.normalize));
      return skipped.map((_, text) => pooled.slice(text * size, (text + 1) * size));
    }
    const rows = await device.readF32(encoder.lastHidden());
    return skipped.map((count, text) => {
      const pool = new RowPool(size, pooling, count);
      pool.add(0, rows.subarray((starts[text] ?? 0) * size, (starts[text + 1] ?? 0) * size));
      return pool.vector();
    });
  }

  #takeBatch(): EmbedRequest[] {
    const { stepTokensMax, sequencesMax } = this.#parts;
    let tokens = 0;
    let count = 0;
    for (const text of this.#waiting) {
      tokens += text.promptTokenIds.length;
      if (tokens > stepTokensMax || count === sequencesMax) break;
      count += 1;
    }
    return this.#waiting.splice(0, count);
  }
}

type BatchResult = "embeddings" | "failures";
