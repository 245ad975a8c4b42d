import { assert } from "#base";
import type { Device, DeviceTensor, KvCache } from "#devices";
import type { Decoder } from "#models";
import { candidatesOfRow, type Sampler, type SamplingRow } from "#sampling";
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

/** One item of a plan, its task, and where its rows are in the step. */
interface StepItem extends PlannedSequence {
  readonly task: SequenceTask;
  readonly firstRow: number;
  /** The row that its next token follows from; a fork's is another item's. */
  readonly lastRow: number;
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
    const drawing = items.filter(isDrawing);
    const searching = items.filter(isSearching);
    const wanted = [...drawing, ...searching];
    if (wanted.length === 0) return items.map(undrawn);
    const lastRows = Int32Array.from(wanted, ({ lastRow }) => lastRow);
    const logits = this.#parts.decoder.logits(lastRows);
    // Before the draw, which may edit its rows; those of beams lie behind them.
    const results = await this.#search(logits, searching, drawing.length);
    await this.#draw(logits, drawing, results);
    return items.map((item) => results.get(item) ?? undrawn(item));
  }

  /** One token for each item, from the first rows. */
  async #draw(
    logits: DeviceTensor,
    items: readonly StepItem[],
    results: Map<StepItem, ItemResult>,
  ): Promise<void> {
    if (items.length === 0) return;
    const rows = items.map(({ sequence, task }): SamplingRow => {
      assert(task.sampling !== null, "A sequence draws after its grammar is compiled");
      return { sampling: task.sampling, position: sequence.tokens.length };
    });
    const batch = await this.#parts.sampler.sample(logits, rows);
    items.forEach((item, row) => {
      const logprobs = batch.logprobs[row] ?? null;
      results.set(item, {
        tokenIds: [batch.tokens[row] ?? 0],
        logprobs: logprobs === null ? null : [logprobs],
        candidates: null,
      });
    });
  }

  /** The likeliest tokens of each beam, from row `first` on. */
  async #search(
    logits: DeviceTensor,
    items: readonly StepItem[],
    first: number,
  ): Promise<Map<StepItem, ItemResult>> {
    const results = new Map<StepItem, ItemResult>();
    for (const count of new Set(items.map(({ task }) => task.beamCandidates))) {
      const rows = items.flatMap(({ task }, at) =>
        task.beamCandidates === count ? [first + at] : [],
      );
      const found = await this.#parts.sampler.topCandidates(logits, rows, count);
      rows.forEach((row, place) => {
        const item = items[row - first];
        assert(item !== undefined, "Cannot search a row without an item");
        const candidates = candidatesOfRow(found, place);
        results.set(item, { tokenIds: [], logprobs: null, candidates });
      });
    }
    return results;
  }
}

function isDrawing({ samples, task }: StepItem): boolean {
  return samples && task.hiddenSum === null && task.beamCandidates === 0;
}

/** A beam that forks shares its lead's row, whose candidates are enough for all. */
function isSearching({ samples, task, forkOf }: StepItem): boolean {
  return samples && task.beamCandidates > 0 && forkOf === null;
}

/** An embedding draws nothing, but its sequence ends as if it had. */
function undrawn({ samples, task }: StepItem): ItemResult {
  const ends = samples && task.hiddenSum !== null;
  return { tokenIds: ends ? [0] : [], logprobs: null, candidates: null };
}

function itemsOf(plan: StepPlan, taskOf: (sequence: Sequence) => SequenceTask): StepItem[] {
  const items: StepItem[] = [];
  let firstRow = 0;
  for (const item of plan.items) {
    const { sequence, count, forkOf } = item;
    const lead = forkOf === null ? null : items[forkOf];
    const lastRow = lead?.lastRow ?? firstRow + count - 1;
    items.push({ ...item, task: taskOf(sequence), firstRow, lastRow });
    firstRow += count;
  }
  return items;
}

function rowsFrom(first: number, count: number): Int32Array {
  return Int32Array.from({ length: count }, (_, place) => first + place);
}
