/** Whole models in the quantised blocks of their files: every type of block. */
import { expect, onTestFinished, test } from "vitest";
import { openCheckpoint } from "#checkpoint";
import { type Device, ReferenceDevice, type WeightFormat } from "#devices";
import { LLM } from "#engine";
import { describeModel } from "#models";
import { CpuDevice } from "../../src/devices/cpu/cpu-device.ts";
import { availableIsas } from "../../src/devices/cpu/isa.ts";
import { isBuilt } from "../../src/devices/cpu/library.ts";
import { scratchFolder } from "../checkpoint/scratch-folder.ts";
import { DecoderDriver } from "../contracts/decoder-driver.ts";
import { cpuThreads, eachNth, sized } from "../support/full.ts";
import { GGUF_FILE_TYPES, randomGguf } from "../support/random-gguf.ts";

const FLOATS: readonly string[] = ["f32", "f16", "bf16"];
const TYPES = GGUF_FILE_TYPES.filter((type) => !FLOATS.includes(type));
const TEXT = Array.from({ length: 48 }, (_, i) => 5 + ((i * 37) % 290));

/** Logits of every position of `TEXT`, [T, V] flat. */
async function logitsOf(path: string, device: Device, format: WeightFormat): Promise<Float32Array> {
  const checkpoint = openCheckpoint(path);
  onTestFinished(() => checkpoint.close());
  const model = describeModel(checkpoint.config);
  if (model.kind !== "decoder") throw new Error("A decoder is wanted");
  const driver = new DecoderDriver({ device, model, sources: checkpoint.tensors, format });
  driver.step([{ sequence: 0, tokens: TEXT }]);
  return driver.logits(TEXT.map((_, row) => row));
}

function argmax(row: Float32Array): number {
  return row.reduce((best, value, i) => (value > (row[best] ?? 0) ? i : best), 0);
}

function logSoftmax(row: Float32Array): Float64Array {
  const most = Math.max(...row);
  const sum = row.reduce((total, value) => total + Math.exp(value - most), 0);
  return Float64Array.from(row, (value) => value - most - Math.log(sum));
}

function divergence(there: Float32Array, here: Float32Array): number {
  const [p, q] = [logSoftmax(there), logSoftmax(here)];
  return p.reduce((sum, value, i) => sum + Math.exp(value) * (value - (q[i] ?? 0)), 0);
}

/** Root mean square of the differences of two rows. */
function distance(a: Float32Array, b: Float32Array): number {
  const squares = a.reduce((sum, value, i) => sum + (value - (b[i] ?? 0)) ** 2, 0);
  return Math.sqrt(squares / a.length);
}

test.for(TYPES)("a model of %s has the tokens of its floats, but for near ties", async (type) => {
  const path = randomGguf(scratchFolder(), type);
  const device = CpuDevice.open({ threads: cpuThreads });
  onTestFinished(() => device.dispose());
  const there = await logitsOf(path, device, "f32");
  const here = await logitsOf(path, device, "q8");
  const size = there.length / TEXT.length;
  let meanKl = 0;
  for (let row = 0; row < TEXT.length; row++) {
    const [a, b] = [there, here].map((all) => all.subarray(row * size, (row + 1) * size));
    if (a === undefined || b === undefined) throw new Error("no row");
    meanKl += divergence(a, b) / TEXT.length;
    const [first, other] = [argmax(a), argmax(b)];
    const gap = (a[first] ?? 0) - (a[other] ?? 0);
    // Another token only where the floats have both within what 8-bit rows round.
    expect(gap, `position ${row}: tokens ${first} and ${other}`).toBeLessThan(6 * distance(a, b));
  }
  // What rounding rows to 8 bits costs; not measured: that of the blocks, which both have.
  expect(meanKl).toBeLessThan(4e-3);
});

test.for(eachNth(2, TYPES))("the reference has the same numbers for %s", async (type) => {
  const path = randomGguf(scratchFolder(), type);
  const device = CpuDevice.open({ threads: cpuThreads });
  onTestFinished(() => device.dispose());
  const wanted = await logitsOf(path, new ReferenceDevice(), "q8");
  const actual = await logitsOf(path, device, "q8");
  const spread = distance(wanted, new Float32Array(wanted.length));
  // A value next to a rounding boundary may fall to its other side.
  expect(distance(wanted, actual) / spread).toBeLessThan(0.01);
});

/** Short runs take a third of the types, and the processor's best: their products have the same bits (packed-matrix.test.ts). */
const ISAS = availableIsas().filter(isBuilt).slice(0, sized(1, 9));

test.for(eachNth(3, TYPES).flatMap((type) => ISAS.map((isa) => [type, isa] as const)))(
  "requests of %s on %s have their tokens in any batch, chunk and cache",
  async ([type, isa]) => {
    const path = randomGguf(scratchFolder(), type);
    const prompts = Array.from({ length: 20 }, (_, i) => ({
      promptTokenIds: TEXT.slice(0, 8 + ((i * 7) % 40)).map((id) => 5 + ((id + i) % 290)),
    }));
    const options = { temperature: 0, maxTokens: 6, ignoreEos: true, detokenize: false };
    const run = async (
      load: Parameters<typeof LLM.load>[1],
      batches: readonly (typeof prompts)[],
    ) => {
      const llm = await LLM.load(path, { device: "cpu", isa, threads: cpuThreads, ...load });
      try {
        expect(llm.info.weightFormat).toBe("q8");
        const results = [];
        for (const batch of batches) results.push(...(await llm.generate(batch, options)));
        return results.map(({ completions }) => completions[0]?.tokenIds);
      } finally {
        await llm[Symbol.asyncDispose]();
      }
    };
    const alone = await run(
      { kvCache: { prefixCaching: false } },
      prompts.map((prompt) => [prompt]),
    );
    const chunks = { scheduler: { stepTokensMax: 24, runningSequencesMax: 16 } };
    expect(await run(chunks, [prompts, prompts])).toEqual([...alone, ...alone]);
    expect(await run({}, [[...prompts, ...prompts]])).toEqual([...alone, ...alone]);
  },
);
