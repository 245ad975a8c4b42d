import { assert } from "#base";
import type { Device, KvCache } from "#devices";
import type { Decoder } from "#models";
import type { Sampler, SamplingRow } from "#sampling";
import type { PlannedSequence, Sequence, StepPlan } from "#scheduler";
import type { ItemResult, ModelRunner } from "./model-runner.ts";
import type { SequenceTask } from "./sequence-task.ts";
import type { StepBuilder } from "./step-builder.ts";

export interface DecoderRunnerParts {
  readonly device: Device;
  readonly decoder: Decoder;
  readonly kvCache: KvCache;
  readonly sampler: Sampler;
  readonly builder: StepBuilder;
  /** Most rows of logits or hidden states at a time. */
  readonly logitRowsMax: number;
}

/** One item of a plan, its task, and where its rows begin in the step. */
interface StepItem extends PlannedSequence {
  readonly task: SequenceTask;
  readonly firstRow: number;
}

/** Runs steps of a decoder on a device. */
export class DecoderRunner implements ModelRunner {
  readonly #parts: DecoderRunnerParts;

  constructor(parts: DecoderRunnerParts) {
    this.#parts = parts;
  }

  async run(plan: StepPlan, taskOf: (sequence: Sequence) => SequenceTask): Promise<ItemResult[]> {
    const { decoder, builder, kvCache, device } = this.#parts;
    const items = itemsOf(plan, taskOf);
    decoder.stage(builder.build(plan));
    decoder.forward(kvCache);
    for (const item of items) await this.#runPrompt(item);
    const results = await this.#sample(items);
    await device.synchronize();
    return results;
  }

  /** What a request wants of its prompt's rows, beside the next token. */
  async #runPrompt(item: StepItem): Promise<void> {
    const { promptLogprobs, promptLogits, hiddenSum } = item.task;
    if (hiddenSum !== null) await this.#sumHidden(item);
    if (promptLogprobs === null && promptLogits === null) return;
    const { promptLength } = item.sequence;
    const end = Math.min(item.start + item.count, promptLength);
    const { logitRowsMax } = this.#parts;
    for (let position = item.start; position < end; position += logitRowsMax) {
      await this.#scorePrompt(item, position, Math.min(logitRowsMax, end - position));
    }
  }

  /** Rows of positions `start` up to `start + count` of a prompt. */
  async #scorePrompt(item: StepItem, start: number, count: number): Promise<void> {
    const { decoder, device, sampler } = this.#parts;
    const { promptLogprobs, promptLogits } = item.task;
    const { sequence } = item;
    const logits = decoder.logits(rowsFrom(item.firstRow + start - item.start, count));
    if (promptLogits !== null) {
      promptLogits.values.set(await device.readF32(logits), start * promptLogits.columns);
    }
    if (promptLogprobs === null) return;
    // A token's row says how likely the next one was; the prompt's last row scores none of it.
    const scored = Math.min(count, sequence.promptLength - 1 - start);
    if (scored <= 0) return;
    const next = sequence.tokens.view(start + 1, start + 1 + scored);
    const scores = await sampler.score(logits, next, promptLogprobs.wanted);
    scores.forEach((score, place) => {
      promptLogprobs.rows[start + 1 + place] = score;
    });
  }

  async #sumHidden(item: StepItem): Promise<void> {
    const { decoder, device, logitRowsMax } = this.#parts;
    for (let place = 0; place < item.count; place += logitRowsMax) {
      const count = Math.min(logitRowsMax, item.count - place);
      const rows = await device.readF32(decoder.hidden(rowsFrom(item.firstRow + place, count)));
      item.task.hiddenSum?.add(item.start + place, rows);
    }
  }

  async #sample(items: readonly StepItem[]): Promise<ItemResult[]> {
    const { decoder, sampler } = this.#parts;
    const drawing = items.filter(({ samples, task }) => samples && task.hiddenSum === null);
    const rows = drawing.map(({ sequence, task }): SamplingRow => {
      assert(task.sampling !== null, "A sequence draws after its grammar is compiled");
      return { sampling: task.sampling, position: sequence.tokens.length };
    });
    const drawn = new Map<StepItem, ItemResult>();
    if (rows.length > 0) {
      const lastRows = drawing.map(({ firstRow, count }) => firstRow + count - 1);
      const batch = await sampler.sample(decoder.logits(Int32Array.from(lastRows)), rows);
      drawing.forEach((item, row) => {
        const logprobs = batch.logprobs[row] ?? null;
        drawn.set(item, {
          tokenIds: [batch.tokens[row] ?? 0],
          logprobs: logprobs === null ? null : [logprobs],
        });
      });
    }
    return items.map((item) => drawn.get(item) ?? undrawn(item));
  }
}

/** An embedding draws nothing, but its sequence ends as if it had. */
function undrawn({ samples }: StepItem): ItemResult {
  return { tokenIds: samples ? [0] : [], logprobs: null };
}

function itemsOf(plan: StepPlan, taskOf: (sequence: Sequence) => SequenceTask): StepItem[] {
  let firstRow = 0;
  return plan.items.map((item) => {
    const placed = { ...item, task: taskOf(item.sequence), firstRow };
    firstRow += item.count;
    return placed;
  });
}

function rowsFrom(first: number, count: number): Int32Array {
  return Int32Array.from({ length: count }, (_, place) => first + place);
}
