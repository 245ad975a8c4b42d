/** Steps without a device: they take the time of a cost model, and their tokens are made up. */
import { assert, type Clock, type Timer } from "#base";
import type {
  CommandResult,
  PromptPart,
  StartedCommand,
  StepCommand,
  StepExecutor,
} from "#engine/loop";
import type { RowEdits, SampledBatch, SamplingBatch, TokenCandidates } from "#sampling";
import { type CostModel, StepMeter } from "./cost-model.ts";
import type { MockMemory } from "./mock-memory.ts";
import { mockCandidates, mockLogprobs, mockPromptPart } from "./mock-results.ts";
import { type MockVocabulary, mockToken, type TokenPlace } from "./mock-tokens.ts";
import { withinEdits } from "./token-edits.ts";

/** Parts of an executor. */
export interface MockExecutorParts {
  readonly model: CostModel;
  readonly memory: MockMemory;
  readonly vocabulary: MockVocabulary;
  readonly endTokenIds: readonly number[];
  /** E: elements of hidden states; V: of logits. */
  readonly hiddenSize: number;
  readonly vocabularySize: number;
  readonly clock: Clock;
  readonly timer: Timer;
}

/**
 * The system's timers are late by up to a millisecond and more: a step that begins so late behind
 * the one before counts from where that ended, so that lateness does not add up.
 */
const LATE_MS_MAX = 3;
/** Less than this is not waited for: timers have no finer grain. */
const WAIT_MS_MIN = 0.5;

/** Keeps no state of sequences, but the last sampled tokens. */
export class MockExecutor implements StepExecutor {
  readonly #parts: MockExecutorParts;
  readonly #meter = new StepMeter();
  /** [rows] of the newest step that sampled. */
  #sampled = new Int32Array(0);
  /** When all steps so far are computed. */
  #freeMs = Number.NEGATIVE_INFINITY;

  constructor(parts: MockExecutorParts) {
    this.#parts = parts;
  }

  async start(command: StepCommand, onPart: (part: PromptPart) => void): Promise<StartedCommand> {
    const { memory, model, clock } = this.#parts;
    const waitMs = memory.carryOut(command);
    const nowMs = clock.nowMs();
    const beginMs = Math.max(this.#freeMs, nowMs - LATE_MS_MAX);
    this.#freeMs = beginMs + waitMs + this.#measure(command).ms(model.step);
    const endMs = this.#freeMs;
    for (const [prompt, rows] of command.prompts.entries()) {
      for (const part of mockPromptPart(command, rows, this.#parts)) onPart({ prompt, ...part });
    }
    const candidates = this.#search(command);
    const places = this.#places(command);
    const tokens = Int32Array.from(places, (place) => mockToken(this.#parts.vocabulary, place));
    if (tokens.length > 0) this.#sampled = tokens;
    const step = {
      places,
      tokens,
      logprobs: command.sampling?.logprobs ?? null,
      candidates,
      endMs,
    };
    return {
      movesMs: 0,
      edit: async (edits) => this.#edit(step, edits),
      finish: () => this.#finish(step),
    };
  }

  #measure({ sequences, queryStarts, contextLengths }: StepCommand): StepMeter {
    this.#meter.clear();
    for (let sequence = 0; sequence < sequences; sequence++) {
      const count = (queryStarts[sequence + 1] ?? 0) - (queryStarts[sequence] ?? 0);
      this.#meter.add((contextLengths[sequence] ?? 0) - count, count);
    }
    return this.#meter;
  }

  #places(command: StepCommand): TokenPlace[] {
    const count = command.sampling?.count ?? 0;
    return Array.from({ length: count }, (_, row) => this.#placeOf(command, row));
  }

  /** What a sampled row's token is made from. A greedy request has no seed. */
  #placeOf(command: StepCommand, row: number): TokenPlace {
    const { sampling } = command;
    assert(sampling !== null, "Cannot sample without parameters");
    const isGreedy = (sampling.temperature[row] ?? 0) === 0;
    return {
      seedLow: isGreedy ? 0 : (sampling.seeds[2 * row] ?? 0),
      seedHigh: isGreedy ? 0 : (sampling.seeds[2 * row + 1] ?? 0),
      position: sampling.positions[row] ?? 0,
      previous: this.#previous(command, row),
    };
  }

  /** The token that a row of logits follows: given, or sampled by the step before. */
  #previous({ logitRows, tokenSources, tokenIds }: StepCommand, row: number): number {
    const at = logitRows?.[row] ?? row;
    const source = tokenSources?.[at] ?? -1;
    return (source < 0 ? tokenIds[at] : this.#sampled[source]) ?? 0;
  }

  #search(command: StepCommand): TokenCandidates[] {
    const { logitRows, positions } = command;
    return command.searches.map(({ rows, candidates }) =>
      mockCandidates(
        this.#parts.vocabulary,
        rows.map((row) => ({
          ...{ seedLow: 0, seedHigh: 0, previous: this.#previous(command, row) },
          position: (positions[logitRows?.[row] ?? row] ?? 0) + 1,
        })),
        candidates,
      ),
    );
  }

  /** Tokens that edits forbid are replaced, before the step that follows reads them. */
  #edit({ places, tokens }: MockStep, edits: RowEdits): void {
    const { vocabulary, endTokenIds, vocabularySize } = this.#parts;
    const limits = { vocabulary, endTokenIds, vocabularySize };
    for (let row = edits.first; row < edits.first + edits.count; row++) {
      const place = places[row];
      assert(place !== undefined, "Cannot edit a row that is not sampled");
      tokens[row] = withinEdits(tokens[row] ?? 0, { edits, row: row - edits.first, place, limits });
    }
  }

  async #finish({ tokens, logprobs, candidates, endMs }: MockStep): Promise<CommandResult> {
    await this.#until(endMs);
    const sampled = tokens.length === 0 ? null : this.#batchOf(tokens, logprobs);
    return { sampled, candidates };
  }

  #batchOf(tokens: Int32Array, wanted: MockStep["logprobs"]): SampledBatch {
    if (wanted === null) return { tokens, logprobs: null };
    const { vocabulary } = this.#parts;
    const logprobs = wanted.map(
      (one, row) => one && mockLogprobs(vocabulary, tokens[row] ?? 0, one),
    );
    return { tokens, logprobs };
  }

  async #until(ms: number): Promise<void> {
    const { clock, timer } = this.#parts;
    const waitMs = ms - clock.nowMs();
    if (waitMs < WAIT_MS_MIN) return;
    await new Promise<void>((resolve) => timer.after(waitMs, resolve));
  }
}

/** A step under way: nothing of its command, whose arrays are reused. */
interface MockStep {
  /** [rows] each. */
  readonly places: readonly TokenPlace[];
  readonly tokens: Int32Array;
  readonly logprobs: SamplingBatch["logprobs"];
  readonly candidates: readonly TokenCandidates[];
  readonly endMs: number;
}
