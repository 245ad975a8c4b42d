import { assert } from "#base";
import type { Device, DeviceTensor, KvPool } from "#devices";
import type { ItemResult, ModelRunner, SequenceTask, StartedStep } from "#engine/loop";
import { requestFailure } from "#engine/protocol";
import type { Decoder } from "#models";
import {
  candidatesOfRow,
  type SampledBatch,
  type Sampler,
  type SamplingRow,
  type StartedDraw,
} from "#sampling";
import type { StepPlan } from "#scheduler";
import type { StepBuilder } from "./step-builder.ts";
import { isDrawing, isSearching, itemsOf, type StepItem, wantsPromptRows } from "./step-item.ts";

export interface DecoderRunnerParts {
  readonly device: Device;
  readonly decoder: Decoder;
  readonly kvCache: KvPool;
  readonly sampler: Sampler;
  readonly builder: StepBuilder;
  /** Most rows of logits or hidden states at a time. */
  readonly logitRowsMax: number;
}

/** Results of a step's last rows. */
interface LastRows {
  readonly draw: StartedDraw | null;
  /** Candidates of items in a beam search. */
  readonly found: ReadonlyMap<StepItem, ItemResult>;
}

const NOTHING: ItemResult = { tokenIds: [], logprobs: null, candidates: null };
/** An embedding samples no token, but its sequence ends as if it had. */
const NO_TOKEN: ItemResult = { tokenIds: [0], logprobs: null, candidates: null };

/**
 * Runs steps of a decoder on a device. Work that only the host can do (grammars, prompt rows,
 * beams) makes `start` wait for the device; the rest is enqueued, and read when the step is
 * finished.
 */
export class DecoderRunner implements ModelRunner {
  readonly #parts: DecoderRunnerParts;

  constructor(parts: DecoderRunnerParts) {
    this.#parts = parts;
  }

  async start(plan: StepPlan, tasks: readonly SequenceTask[]): Promise<StartedStep> {
    const { decoder, builder, kvCache, sampler } = this.#parts;
    const items = itemsOf(plan, tasks);
    decoder.stage(builder.build(items), sampler.tokens);
    decoder.forward(kvCache);
    for (const item of items) if (wantsPromptRows(item)) await this.#runPrompt(item);
    const { draw, found } = await this.#readLastRows(items);
    // A step that samples nothing needs an end, too.
    const end = draw ?? this.#markEnd();
    return {
      finish: async () => {
        const drawn = await end.take();
        let row = 0;
        return items.map((item) =>
          isDrawing(item) ? resultOf(drawn, row++) : (found.get(item) ?? undrawn(item)),
        );
      },
    };
  }

  #markEnd(): StartedDraw {
    const { device, sampler } = this.#parts;
    const mark = device.readLater(device.rows(sampler.tokens, 0, 1));
    const failures = new Map();
    return { take: async () => ({ tokens: await mark.take(), logprobs: [], failures }) };
  }

  /** Computes pooled hidden states, log-probabilities and logits of a prompt's rows. */
  async #runPrompt(item: StepItem): Promise<void> {
    const { promptLogprobs, promptLogits, hiddenPool } = item.task;
    if (hiddenPool !== null) await this.#poolHidden(item);
    if (promptLogprobs === null && promptLogits === null) return;
    const { sequence, start, count } = item.planned;
    const end = Math.min(start + count, sequence.promptLength);
    const { logitRowsMax } = this.#parts;
    for (let position = start; position < end; position += logitRowsMax) {
      await this.#scorePrompt(item, position, Math.min(logitRowsMax, end - position));
    }
  }

  /** Scores positions `start` up to `start + count` of a prompt. */
  async #scorePrompt(item: StepItem, start: number, count: number): Promise<void> {
    const { decoder, device, sampler } = this.#parts;
    const { promptLogprobs, promptLogits } = item.task;
    const { sequence } = item.planned;
    const logits = decoder.logits(rowsFrom(item.firstRow + start - item.planned.start, count));
    if (promptLogits !== null) {
      promptLogits.values.set(await device.readF32(logits), start * promptLogits.columns);
    }
    if (promptLogprobs === null) return;
    // A token's row scores the next token, so the prompt's last row scores no prompt token.
    const scored = Math.min(count, sequence.promptLength - 1 - start);
    if (scored <= 0) return;
    const next = sequence.tokens.view(start + 1, start + 1 + scored);
    const scores = await sampler.score(logits, next, promptLogprobs.wanted);
    scores.forEach((score, place) => {
      promptLogprobs.rows[start + 1 + place] = score;
    });
  }

  async #poolHidden({ task, planned, firstRow }: StepItem): Promise<void> {
    const { decoder, device, logitRowsMax } = this.#parts;
    for (let place = 0; place < planned.count; place += logitRowsMax) {
      const count = Math.min(logitRowsMax, planned.count - place);
      const rows = await device.readF32(decoder.hidden(rowsFrom(firstRow + place, count)));
      task.hiddenPool?.add(planned.start + place, rows);
    }
  }

  async #readLastRows(items: readonly StepItem[]): Promise<LastRows> {
    const made = this.#parts.decoder.drawnLogits();
    if (made !== null) return { draw: await this.#draw(made, items), found: new Map() };
    const drawing = items.filter(isDrawing);
    const searching = items.filter(isSearching);
    const wanted = [...drawing, ...searching];
    if (wanted.length === 0) return { draw: null, found: new Map() };
    const lastRows = Int32Array.from(wanted, ({ lastRow }) => lastRow);
    const logits = this.#parts.decoder.logits(lastRows);
    // Before sampling, which may edit its rows; the rows of beams come after them.
    const found = await this.#search(logits, searching, drawing.length);
    return { draw: drawing.length === 0 ? null : await this.#draw(logits, drawing), found };
  }

  /** Samples one token for each item, from the first rows. */
  async #draw(logits: DeviceTensor, items: readonly StepItem[]): Promise<StartedDraw> {
    const rows = items.map(({ planned, task }): SamplingRow => {
      const { sampling } = task;
      assert(sampling !== null, "A sequence draws after its grammar is compiled");
      const position = planned.start + planned.count;
      return { sampling, position, awaitedTokens: position - planned.sequence.tokens.length };
    });
    const draw = await this.#parts.sampler.start(logits, rows);
    items.forEach(({ task }, row) => {
      task.drawnRow = row;
    });
    return draw;
  }

  /** The likeliest tokens of each beam, from row `first` on. */
  async #search(
    logits: DeviceTensor,
    items: readonly StepItem[],
    first: number,
  ): Promise<Map<StepItem, ItemResult>> {
    const results = new Map<StepItem, ItemResult>();
    if (items.length === 0) return results;
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

/** The token sampled from a row. */
function resultOf({ tokens, logprobs, failures }: SampledBatch, row: number): ItemResult {
  const logprob = logprobs[row] ?? null;
  const result = {
    tokenIds: [tokens[row] ?? 0],
    logprobs: logprob === null ? null : [logprob],
    candidates: null,
  };
  return failures.has(row) ? { ...result, failure: requestFailure(failures.get(row)) } : result;
}

function undrawn({ planned, task }: StepItem): ItemResult {
  return planned.samples && task.hiddenPool !== null ? NO_TOKEN : NOTHING;
}

function rowsFrom(first: number, count: number): Int32Array {
  return Int32Array.from({ length: count }, (_, place) => first + place);
}
