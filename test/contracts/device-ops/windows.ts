/** Windows and attention sinks: what is seen, what is never read, and what StreamingLLM says. */
import { expect, test } from "vitest";
import type { Activation, AttentionBatch, DeviceTensor, KvPool } from "#devices";
import { ropeTable } from "#models";
import { eachNth, sized } from "../../support/full.ts";
import { expectSameBits } from "../../support/same-bits.ts";
import { AttentionSetting, type AttentionShape, layer, type Span } from "./attention-batch.ts";
import { attentionRounding } from "./attention-rounding.ts";
import type { Both, DevicePair } from "./pair.ts";
import { RandomNumbers } from "./random.ts";
import { type StreamingCase, streamingAttention } from "./streaming-attention.ts";

const grouped = { heads: 6, kvHeads: 2, headDim: 64, blockTokens: 16, format: "f32" } as const;

/** What a sequence of `context` tokens shows to its last `rows` rows. */
interface WindowAndSinks {
  readonly window: number;
  readonly sinks: number;
}

/** Whether no row of a span sees a place: rows see sinks and the window's last other places. */
function hiddenFrom({ context, rows }: Span, { window, sinks }: WindowAndSinks) {
  const first = context - rows - (window - sinks) + 1;
  return (place: number): boolean => place >= sinks && place < first;
}

interface WindowCase extends WindowAndSinks {
  readonly shape: AttentionShape;
  readonly softcap?: number;
}

/** Decodes far behind the window, chunks across its edge, prompts shorter than it. */
const spans: readonly Span[] = [
  { context: sized(450, 700), rows: 1 },
  { context: 37, rows: 37 },
  { context: 1, rows: 1 },
  { context: sized(400, 600), rows: sized(18, 40) },
  { context: 290, rows: 2 },
  { context: 17, rows: 3 },
];

async function checkWindow(pair: DevicePair, given: WindowCase): Promise<void> {
  const { shape, window, sinks, softcap } = given;
  const contexts = spans.map(({ context }) => context);
  const hidden = spans.map((span) => hiddenFrom(span, given));
  const setting = new AttentionSetting(pair, shape, contexts, window + sinks, (sequence, place) =>
    Boolean(hidden[sequence]?.(place)),
  );
  const rows = spans.reduce((sum, span) => sum + span.rows, 0);
  const columns = shape.heads * shape.headDim;
  const query = pair.f32([rows, columns], setting.queries(rows));
  const sinkQuery = pair.f32([rows, columns], setting.queries(rows));
  const out = pair.activation("f32", rows, columns);
  const batch = setting.batch(
    spans,
    spans.map((_, i) => i),
  );
  pair.run((device, pick) => {
    device.pagedAttention({
      ...{ count: rows, out: pick(out), query: pick(query), heads: shape.heads },
      ...{ cache: pick(setting.cache), layer, batch: pick(batch), window },
      scale: 1 / Math.sqrt(shape.headDim),
      ...(sinks > 0 && { sinks: { tokens: sinks, query: pick(sinkQuery) } }),
      ...(softcap !== undefined && { softcap }),
    });
  });
  const computed = await pair.defined.readF32(out.defined);
  expect(computed.every((value) => Number.isFinite(value))).toBe(true);
  await pair.expectClose(out, attentionRounding[shape.format]);
}

function maskContract(pair: () => DevicePair): void {
  const shapes: readonly AttentionShape[] = [
    { ...grouped, format: "f16", blockTokens: 32 },
    { ...grouped, format: "bf16", blockTokens: 1 },
    { ...grouped, format: "i8" },
    { ...grouped, format: "i8", blockTokens: 2 },
    { ...grouped, format: "fp8" },
    { heads: 7, kvHeads: 1, headDim: 80, blockTokens: 4, format: "f16" },
    { heads: 2, kvHeads: 2, headDim: 20, blockTokens: 64, format: "bf16" },
  ];
  const windows: readonly WindowAndSinks[] = [
    { window: 1, sinks: 0 },
    { window: 70, sinks: 0 },
    { window: 2, sinks: 1 },
    { window: 64, sinks: 4 },
    { window: 33, sinks: 16 },
    { window: 300, sinks: 21 },
    { window: 310, sinks: 270 },
    { window: 2000, sinks: 3 },
  ];
  const cases: readonly WindowCase[] = [
    // In the short run each of them in one of the two formats.
    ...eachNth(2, windows).map((each) => ({ ...each, shape: grouped })),
    ...eachNth(2, [...windows.slice(1), ...windows.slice(0, 1)]).map((each) => ({
      ...each,
      shape: { ...grouped, format: "bf16" as const },
    })),
    ...eachNth(
      4,
      shapes.flatMap((shape) => [
        { shape, window: 61, sinks: 0 },
        { shape, window: 64, sinks: 5 },
        { shape, window: 280, sinks: 21 },
      ]),
    ),
  ];
  test.for(cases)(
    "pagedAttention: window $window, $sinks sinks, $shape.format, blocks of $shape.blockTokens: " +
      "hidden positions may be NaN, and their blocks may be reused",
    (given) => checkWindow(pair(), given),
  );

  test("pagedAttention: sinks with softcap", () =>
    checkWindow(pair(), { shape: grouped, window: 40, sinks: 5, softcap: 1.5 }));
}

function independenceContract(pair: () => DevicePair): void {
  const shapes = (["f32", "bf16", "i8"] as const).map((format) => ({ ...grouped, format }));
  const cut = shapes.flatMap((shape) => [1, 7, 64].map((size) => ({ shape, size })));
  test.for(eachNth(4, cut))(
    "pagedAttention: sinks, 400 rows, $size at a time, $shape.format",
    async ({ shape, size }) => {
      const rows = 400;
      const columns = shape.heads * shape.headDim;
      const setting = new AttentionSetting(pair(), shape, [rows], size);
      const queries = setting.queries(rows);
      const sinkQueries = setting.queries(rows);
      const attend = (start: number, end: number): Promise<Float32Array> =>
        setting.attendTested(
          [{ context: end, rows: end - start }],
          [0],
          queries.subarray(start * columns, end * columns),
          {
            window: 60,
            sinks: { tokens: 21, queries: sinkQueries.subarray(start * columns, end * columns) },
          },
        );
      const whole = await attend(0, rows);
      // One row in ten is enough at one row a time.
      for (let start = 0; start < rows; start += size === 1 ? 10 : size) {
        const end = Math.min(rows, start + size);
        expectSameBits(await attend(start, end), whole.subarray(start * columns, end * columns));
      }
    },
  );

  test.for(shapes)(
    "pagedAttention: sinks change no bit of rows that see everything, $format",
    async (shape) => {
      const rows = 300;
      const setting = new AttentionSetting(pair(), shape, [rows], rows);
      const queries = setting.queries(rows);
      const span = [{ context: rows, rows }];
      const sinks = { tokens: 20, queries };
      const plain = await setting.attendTested(span, [0], queries);
      for (const window of [300, 310]) {
        expectSameBits(await setting.attendTested(span, [0], queries, { window, sinks }), plain);
      }
    },
  );
}

const blockTokens = 16;

/** One sequence in a cache of both devices, its last block first. */
class StreamedSequence {
  readonly #pair: DevicePair;
  readonly #given: StreamingCase;
  readonly #cache: Both<KvPool>;
  readonly #rope: Both<DeviceTensor>;
  readonly #table: readonly number[];

  constructor(pair: DevicePair, given: StreamingCase) {
    const { kvHeads, headDim, tokens } = given;
    this.#pair = pair;
    this.#given = given;
    const blocks = Math.ceil(tokens / blockTokens);
    this.#cache = pair.make((device) =>
      device.allocateKvPool({ format: "f32", layers: 1, blocks, blockTokens, kvHeads, headDim }),
    );
    this.#rope = pair.f32([tokens, headDim], ropeTable(given.rope, { positions: tokens }));
    this.#table = Array.from({ length: blocks }, (_, i) => blocks - 1 - i);
  }

  /** Writes tokens `start` up to `end` and attends, as a decoder's layer does. [end - start, H * D]. */
  step(start: number, end: number): Both<Activation> {
    const { heads, kvHeads, headDim, qkv: rows, window } = this.#given;
    const pair = this.#pair;
    const count = end - start;
    const places = Array.from({ length: count }, (_, i) => start + i);
    const positions = pair.i32(places);
    const slots = pair.i32(places.map((place) => this.#slotOf(place)));
    const width = (heads + 2 * kvHeads) * headDim;
    const qkv = pair.f32([count, width], rows.subarray(start * width, end * width));
    const query = pair.f32([count, heads * headDim]);
    const sinkQuery = pair.f32([count, heads * headDim]);
    const out = pair.activation("f32", count, heads * headDim);
    const batch = this.#batch(count, end);
    pair.run((device, pick) => {
      const cache = pick(this.#cache);
      const step = { count, query: pick(query), heads, cache, layer: 0 };
      device.ropeKvWrite({
        ...{ ...step, qkv: pick(qkv), positions: pick(positions), slots: pick(slots) },
        rope: pick(this.#rope),
        sinkQuery: { out: pick(sinkQuery), positionMax: window - 1 },
      });
      device.pagedAttention({
        ...{ ...step, out: pick(out), batch: pick(batch), scale: this.#given.scale, window },
        sinks: { tokens: this.#given.sinks, query: pick(sinkQuery) },
      });
    });
    return out;
  }

  #slotOf(place: number): number {
    const block = this.#table[Math.floor(place / blockTokens)] ?? 0;
    return block * blockTokens + (place % blockTokens);
  }

  #batch(rows: number, context: number): Both<AttentionBatch> {
    const pair = this.#pair;
    const queryStarts = pair.i32([0, rows]);
    const contextLengths = pair.i32([context]);
    const blockTables = pair.i32(this.#table, [1, this.#table.length]);
    const side = (which: "defined" | "tested"): AttentionBatch => ({
      ...{ sequences: 1, queryLengthMax: rows, contextLengthMax: context },
      queryStarts: queryStarts[which],
      contextLengths: contextLengths[which],
      blockTables: blockTables[which],
    });
    return { defined: side("defined"), tested: side("tested") };
  }
}

function worstOf(actual: Float32Array, wanted: readonly number[]): number {
  return actual.reduce(
    (worst, value, i) => Math.max(worst, Math.abs(value - (wanted[i] ?? Number.NaN))),
    0,
  );
}

function streamingContract(pair: () => DevicePair): void {
  const cases = [
    { window: 12, sinks: 4, chunk: 1 },
    { window: 12, sinks: 4, chunk: 50 },
    { window: 40, sinks: 17, chunk: 9 },
    { window: 300, sinks: 2, chunk: 64 },
  ];
  test.for(cases)(
    "window $window, $sinks sinks, $chunk tokens a step: keys turned anew at their places in the " +
      "cache give the same",
    async ({ window, sinks, chunk }) => {
      const [heads, kvHeads, headDim, tokens] = [4, 2, 16, 90];
      const width = (heads + 2 * kvHeads) * headDim;
      const qkv = new RandomNumbers(window).floats(tokens * width);
      const rope = { kind: "rope", rotaryDim: headDim, theta: 1e4 } as const;
      const given: StreamingCase = {
        ...{ heads, kvHeads, headDim, tokens, window, sinks, qkv, scale: 0.25 },
        rope: { ...rope, scaling: { kind: "default" } },
      };
      const wanted = streamingAttention(given);
      const sequence = new StreamedSequence(pair(), given);
      for (let start = 0; start < tokens; start += chunk) {
        const end = Math.min(tokens, start + chunk);
        const { defined, tested } = sequence.step(start, end);
        const part = wanted.slice(start * heads * headDim, end * heads * headDim);
        expect(worstOf(await pair().defined.readF32(defined), part)).toBeLessThan(1e-5);
        expect(worstOf(await pair().tested.readF32(tested), part)).toBeLessThan(1e-5);
      }
    },
  );
}

/** pagedAttention and ropeKvWrite with windows and sinks. */
export function windowOps(pair: () => DevicePair): void {
  maskContract(pair);
  independenceContract(pair);
  streamingContract(pair);
}
