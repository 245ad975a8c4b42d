/**
 * How long a step takes, from what it computes. A linear model: each term stands for what limits
 * a part of the work (weights are read once a step, prompts are multiplied with them, attention
 * reads what is cached), and measured points give its factor (cost-fit.ts).
 */

/** What a step, or several steps together, computed. */
export interface StepSize {
  /** Steps with any work. */
  readonly steps: number;
  /** Prompt tokens that were computed. */
  readonly promptTokens: number;
  /** Pairs of these with the positions that they see, their own included. */
  readonly promptPairs: number;
  /** Sequences that decoded one token. */
  readonly decoding: number;
  /** Tokens of context that these read, all together. */
  readonly contextTokens: number;
}

/** Milliseconds for each unit of `StepSize`. */
export interface StepCost {
  readonly stepMs: number;
  readonly promptTokenMs: number;
  readonly promptPairMs: number;
  readonly decodingMs: number;
  readonly contextTokenMs: number;
}

/** A worker's speed and sizes, for one model on one machine. Plain data: it is read from JSON. */
export interface CostModel {
  readonly name: string;
  /** Who measured it, where and how. */
  readonly source: string;
  readonly step: StepCost;
  readonly contextTokensMax: number;
  /** Keys and values of one token, all layers. */
  readonly bytesPerToken: number;
  /** Between host memory and the device. */
  readonly hostBytesPerMs: number;
  /** From disk to host memory, and back. */
  readonly diskBytesPerMs: number;
  /** Tokens that fit: on the device, in host memory, on disk. Each may be replaced. */
  readonly poolTokens: readonly [number, number, number];
  /** A token's attention to one position, relative to its other work: see `LoadCost`. */
  readonly attentionWeight: number;
}

/** One step of nothing. */
export const NO_WORK: StepSize = {
  steps: 0,
  promptTokens: 0,
  promptPairs: 0,
  decoding: 0,
  contextTokens: 0,
};

/** Milliseconds of that much work. */
export function stepMs(cost: StepCost, size: StepSize): number {
  return (
    cost.stepMs * size.steps +
    cost.promptTokenMs * size.promptTokens +
    cost.promptPairMs * size.promptPairs +
    cost.decodingMs * size.decoding +
    cost.contextTokenMs * size.contextTokens
  );
}

/** Adds up one step, sequence by sequence. Reused from step to step. */
export class StepMeter {
  #promptTokens = 0;
  #promptPairs = 0;
  #decoding = 0;
  #contextTokens = 0;

  clear(): void {
    this.#promptTokens = 0;
    this.#promptPairs = 0;
    this.#decoding = 0;
    this.#contextTokens = 0;
  }

  /** A sequence computes `count` tokens behind `start` others; one token alone decodes. */
  add(start: number, count: number): void {
    if (count === 1) {
      this.#decoding++;
      this.#contextTokens += start + 1;
    } else if (count > 1) {
      this.#promptTokens += count;
      this.#promptPairs += pairsOf(start, count);
    }
  }

  /** Of what was added; `steps` is 0 where that is nothing. */
  get size(): StepSize {
    return {
      steps: this.#promptTokens + this.#decoding > 0 ? 1 : 0,
      promptTokens: this.#promptTokens,
      promptPairs: this.#promptPairs,
      decoding: this.#decoding,
      contextTokens: this.#contextTokens,
    };
  }

  /** Milliseconds of what was added. */
  ms(cost: StepCost): number {
    return stepMs(cost, this.size);
  }
}

/** Pairs of `count` tokens behind `start` others with what they see. */
export function pairsOf(start: number, count: number): number {
  return count * start + (count * (count + 1)) / 2;
}

/** Milliseconds to bring `tokens` to the device from level 1 (host memory) or 2 (disk). */
export function loadMs(model: CostModel, level: 1 | 2, tokens: number): number {
  const bytes = tokens * model.bytesPerToken;
  const copyMs = bytes / model.hostBytesPerMs;
  return level === 1 ? copyMs : copyMs + bytes / model.diskBytesPerMs;
}

/** A cost model's pool in blocks, by level. */
export function poolBlocks(model: CostModel, blockTokens: number): [number, number, number] {
  const [device, host, disk] = model.poolTokens;
  const blocksOf = (tokens: number) => Math.floor(tokens / blockTokens);
  return [Math.max(1, blocksOf(device)), blocksOf(host), blocksOf(disk)];
}

/** The same machine, `factor` times as fast in everything. */
export function speededUp(model: CostModel, factor: number): CostModel {
  const { step } = model;
  return {
    ...model,
    step: {
      stepMs: step.stepMs / factor,
      promptTokenMs: step.promptTokenMs / factor,
      promptPairMs: step.promptPairMs / factor,
      decodingMs: step.decodingMs / factor,
      contextTokenMs: step.contextTokenMs / factor,
    },
    hostBytesPerMs: model.hostBytesPerMs * factor,
    diskBytesPerMs: model.diskBytesPerMs * factor,
  };
}
