/**
 * How long steps take, by sequences and drafted tokens, measured before any request: made-up
 * requests run through an engine of the same device, with a scheduler and a cache of their own.
 */
import type { Clock } from "#base";
import { type EngineRequest, FIRST_CLIENT, firstKeyOf, type WantedShape } from "#engine/protocol";
import { SamplingParams } from "#sampling";
import {
  type CostRow,
  chainOf,
  checkTree,
  type DraftShape,
  firstBranchTokens,
  lowerQuartile,
  type TokenTree,
} from "#speculative";
import type { MeasuredStep } from "./draft-policy.ts";
import type { StepPolicy } from "./drafting.ts";
import type { Engine } from "./engine.ts";
import type { CostsAhead, NetworkShape } from "./kind-costs.ts";
import type { SequenceDrafter } from "./sequence-drafter.ts";

/**
 * Numbers of sequences, in the order in which they are measured, until time runs out. Numbers in
 * between are taken for the nearest.
 */
const SEQUENCES = [1, 8, 32, 4, 64, 16, 2, 128] as const;
/** Looked-up tokens of a step, by sequence: at first only some of them have a draft. */
const DRAFTED = [0.25, 1, 3, 7, 15, 31] as const;
/**
 * Share of the time for what is not recorded: steps of one sequence before all others, while the
 * engine's code is new, and steps with real drafts behind them.
 */
const PRACTICE_SHARE = 0.2;
const PRACTICE = { sequences: 4, steps: 100 };
/** Steps of one size: the first are of the size before, or of kernels that begin. */
const STEPS = { leftOut: 3, measured: 5 };
const PROMPT_TOKENS = 2;

/** What an engine that measures has in the place of requests' drafters. */
export interface MeasuringParts {
  readonly policy: StepPolicy;
  readonly makeDrafter: () => SequenceDrafter;
}

export interface MeasureOptions {
  /** An engine of this policy and these drafters, without a request. */
  readonly open: (parts: MeasuringParts) => Engine;
  readonly clock: Clock;
  /** Most ms that it takes; a step that has begun ends. */
  readonly msMax: number;
  /** Most sequences, and rows that a step can sample. */
  readonly sequencesMax: number;
  readonly sampledRowsMax: number;
  /** Most tokens of a sequence. */
  readonly contextTokensMax: number;
  readonly vocabularySize: number;
  /** Most looked-up tokens of a sequence in a step; 0: none are looked up. */
  readonly lookupMax: number;
  /** What a network drafts for each sequence at most; null: there is none. */
  readonly network: DraftShape | null;
}

/** What `practise` runs. */
export interface PracticeOptions
  extends Pick<MeasureOptions, "clock" | "msMax" | "contextTokensMax" | "vocabularySize"> {
  /** An engine as it will serve. */
  readonly engine: Engine;
  /** What requests draft by if they do not say. */
  readonly draftShape: WantedShape;
}

/** What is drafted in the steps of a size. */
interface Trial {
  readonly sequences: number;
  /** Drafted tokens of a step that were not drafted by a network. */
  readonly lookedUp: number;
  readonly network: DraftShape | null;
}

/** Measures sizes of steps for as long as there is time. */
export async function measureCosts(options: MeasureOptions): Promise<CostsAhead> {
  const { clock, msMax, open } = options;
  const startMs = clock.nowMs();
  const untilMs = startMs + (1 - PRACTICE_SHARE) * msMax;
  const practice = { options, sequences: 1, untilMs: startMs + PRACTICE_SHARE * msMax };
  const bench = new Bench(options.vocabularySize);
  const engine = open(bench);
  const rows = { others: [] as CostRow[], chain: [] as CostRow[], tree: [] as CostRow[] };
  try {
    await measureRow(engine, bench, practice);
    for (const sequences of SEQUENCES) {
      if (sequences > options.sequencesMax) continue;
      const found = await measureRow(engine, bench, { options, sequences, untilMs });
      for (const kind of ["others", "chain", "tree"] as const) {
        const points = found[kind].sort((one, other) => one.nodes - other.nodes);
        if (points.length > 1) rows[kind].push({ sequences, points });
      }
      if (clock.nowMs() >= untilMs) break;
    }
  } finally {
    await engine.dispose();
  }
  return rows;
}

/**
 * Has an engine draft for made-up requests as it will for real ones, so that its code is compiled
 * before the first of these.
 */
export async function practise({ engine, clock, msMax, ...options }: PracticeOptions) {
  const untilMs = clock.nowMs() + PRACTICE_SHARE * msMax;
  const keys = Array.from({ length: PRACTICE.sequences }, (_, at) => firstKeyOf(FIRST_CLIENT) + at);
  const { draftShape } = options;
  for (const key of keys) engine.add({ ...requestOf(key, options), draftShape });
  try {
    for (let step = 0; step < PRACTICE.steps && clock.nowMs() < untilMs; step++) {
      if ((await engine.step()) === null) break;
    }
  } finally {
    await end(engine, keys);
    await engine.dispose();
  }
}

/** Aborts these requests. */
async function end(engine: Engine, keys: readonly number[]): Promise<void> {
  for (const key of keys) engine.abort(key);
  // A step that began ahead ends.
  while ((await engine.step()) !== null);
}

type Points = { nodes: number; ms: number }[];

/** All sizes of one number of sequences. */
async function measureRow(
  engine: Engine,
  bench: Bench,
  { options, sequences, untilMs }: { options: MeasureOptions; sequences: number; untilMs: number },
): Promise<Record<"others" | NetworkShape, Points>> {
  const found: Record<"others" | NetworkShape, Points> = { others: [], chain: [], tree: [] };
  const keys = Array.from({ length: sequences }, (_, at) => firstKeyOf(FIRST_CLIENT) + at);
  bench.begin();
  for (const key of keys) engine.add(requestOf(key, options));
  try {
    for (const trial of trialsOf(options, sequences)) {
      const ms = await bench.measure(engine, trial, { clock: options.clock, untilMs });
      if (ms === null) break;
      const { lookedUp, network } = trial;
      const nodes = network === null ? lookedUp : sequences * network.length * network.width;
      if (nodes === 0) for (const points of Object.values(found)) points.push({ nodes, ms });
      else if (network === null) found.others.push({ nodes, ms });
      else found[network.width > 1 ? "tree" : "chain"].push({ nodes, ms });
    }
  } finally {
    await end(engine, keys);
  }
  return found;
}

/** Plain steps first: all others are compared with them. */
function* trialsOf(
  { sampledRowsMax, lookupMax, network }: MeasureOptions,
  sequences: number,
): Generator<Trial> {
  const plain = { sequences, lookedUp: 0, network: null };
  const room = sampledRowsMax - sequences;
  yield plain;
  for (const each of DRAFTED) {
    const lookedUp = each * sequences;
    const isWhole = lookedUp >= 1 && each <= lookupMax && lookedUp <= room;
    if (isWhole) yield { ...plain, lookedUp };
  }
  if (network === null) return;
  const { length, width } = network;
  for (const shape of [
    { length: 1, width: 1 },
    { length, width: 1 },
    { length, width },
  ]) {
    const isNew = shape.length * shape.width > 1 || length * width === 1;
    if (isNew && sequences * shape.length * shape.width <= room) {
      yield { ...plain, network: shape };
    }
  }
}

/** A greedy sequence that goes on as long as it is asked to. */
function requestOf(
  key: number,
  { contextTokensMax, vocabularySize }: Pick<MeasureOptions, "contextTokensMax" | "vocabularySize">,
): EngineRequest {
  const maxTokens = Math.max(1, contextTokensMax - PROMPT_TOKENS);
  return {
    key,
    requestId: `measured-${key}`,
    promptTokenIds: Int32Array.from(
      { length: PROMPT_TOKENS },
      (_, at) => (key + at) % vocabularySize,
    ),
    params: SamplingParams.parse({ temperature: 0, maxTokens, ignoreEos: true }),
    seed: 0n,
    ...{ cacheSalt: null, retention: null, priority: 0, badWordTokenIds: [], thinking: null },
    promptLogits: false,
    draftShape: { kind: "lookup", length: 1, width: 1 },
    predictedTokenIds: null,
  };
}

/** Has steps of one size after the other made, and takes their times. */
class Bench implements MeasuringParts {
  readonly #vocabularySize: number;
  #trial: Trial = { sequences: 0, lookedUp: 0, network: null };
  #sequences = 0;
  #steps: { readonly step: MeasuredStep; readonly ms: number }[] = [];
  readonly policy: StepPolicy;

  constructor(vocabularySize: number) {
    this.#vocabularySize = vocabularySize;
    this.policy = {
      triesNetwork: false,
      record: (step, ms) => void this.#steps.push({ step, ms }),
      allot: (offers) => offers.map(({ length }) => length),
      looks: () => false,
      drafts: () => [],
    };
  }

  /** The next sequences are the first of a row. */
  begin(): void {
    this.#sequences = 0;
  }

  readonly makeDrafter = (): SequenceDrafter => {
    const place = this.#sequences++;
    return new MadeUpDrafts(() => this.#trial, place, this.#vocabularySize);
  };

  /** ms of a step of this size; null: time or room ran out before it was measured. */
  async measure(
    engine: Engine,
    trial: Trial,
    { clock, untilMs }: { readonly clock: Clock; readonly untilMs: number },
  ): Promise<number | null> {
    this.#trial = trial;
    this.#steps = [];
    const { leftOut, measured } = STEPS;
    // Prompts come first, and a sequence may need another step until it has its draft.
    for (let steps = 0; steps < 3 * (leftOut + measured) + trial.sequences; steps++) {
      const fitting = this.#steps.filter(({ step }) => isOf(step, trial)).map(({ ms }) => ms);
      if (fitting.length >= leftOut + measured) return lowerQuartile(fitting.slice(leftOut));
      if (clock.nowMs() >= untilMs || (await engine.step()) === null) return null;
    }
    return null;
  }
}

function isOf({ sequences, drafted, network }: MeasuredStep, trial: Trial): boolean {
  if (sequences !== trial.sequences) return false;
  if (trial.network === null) return drafted === trial.lookedUp && network === null;
  const { length, width } = trial.network;
  const isWhole = drafted === sequences * length * width;
  return isWhole && network === (width > 1 ? "tree" : "chain");
}

/** Drafts that are hardly ever right, as long as the trial wants. */
class MadeUpDrafts implements SequenceDrafter {
  readonly kind = "measured";
  readonly whole = null;
  readonly matched = 0;
  readonly #trial: () => Trial;
  /** Among the trial's sequences. */
  readonly #place: number;
  readonly #vocabularySize: number;
  #likely = 0;
  #proposed = 0;
  #drafts = false;

  constructor(trial: () => Trial, place: number, vocabularySize: number) {
    this.#trial = trial;
    this.#place = place;
    this.#vocabularySize = vocabularySize;
  }

  get likelyTokens(): number {
    return this.#likely;
  }

  get active(): boolean {
    return this.#drafts || this.#proposed > 0;
  }

  begin(): DraftShape | null {
    const { network } = this.#trial();
    this.#drafts = network !== null;
    return network;
  }

  next({ tokens }: Parameters<SequenceDrafter["next"]>[0], made: TokenTree | null) {
    this.#proposed = 0;
    this.#likely = 0;
    if (made !== null) {
      checkTree(made);
      this.#likely = firstBranchTokens(made);
      return made.tokens.length === 1 ? null : made;
    }
    const { lookedUp, sequences, network } = this.#trial();
    if (network !== null) return null;
    // Where there are fewer than sequences, the first ones have one each.
    const each = Math.floor(lookedUp / sequences);
    const length = each + (this.#place < lookedUp - each * sequences ? 1 : 0);
    if (length === 0) return null;
    this.#likely = length;
    const root = tokens.get(tokens.length - 1);
    return chainOf(
      root,
      Int32Array.from({ length }, (_, at) => this.#tokenAt(root, at)),
    );
  }

  #tokenAt(root: number, at: number): number {
    return (root + 7 * (at + 1)) % this.#vocabularySize;
  }

  allow(): void {}

  proposed(nodes: number): void {
    this.#proposed = nodes;
  }

  follow(): null {
    return null;
  }

  verified(): void {}
}
