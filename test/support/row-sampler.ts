/** Both halves of sampling, one after the other: rows of sequences in, tokens out. */
import type { DeviceTensor } from "#devices";
import {
  BatchWriter,
  type PositionLogprobs,
  type RowFailures,
  Sampler,
  type SamplerOptions,
  type SamplingRow,
} from "#sampling";

/** The tokens of rows, null where no log-probabilities were requested, and the rows' errors. */
export interface SampledRows {
  readonly tokens: Int32Array;
  readonly logprobs: readonly (PositionLogprobs | null)[];
  readonly failures: RowFailures;
}

export class RowSampler {
  readonly sampler: Sampler;
  readonly #writer: BatchWriter;

  constructor(options: SamplerOptions) {
    this.sampler = new Sampler(options);
    this.#writer = new BatchWriter(options);
  }

  async start(
    logits: DeviceTensor,
    rows: readonly SamplingRow[],
  ): Promise<{ take(): Promise<SampledRows> }> {
    const batch = this.#writer.batch(rows);
    const failures = await this.#writer.prepare(rows);
    for (const edits of batch.edited ? this.#writer.edits(rows, failures) : []) {
      this.sampler.edit(logits, batch, edits);
    }
    const draw = await this.sampler.start(logits, batch);
    return {
      take: async () => {
        const { tokens, logprobs } = await draw.take();
        return { tokens, logprobs: logprobs ?? rows.map(() => null), failures };
      },
    };
  }

  async sample(logits: DeviceTensor, rows: readonly SamplingRow[]): Promise<SampledRows> {
    return await (await this.start(logits, rows)).take();
  }
}
