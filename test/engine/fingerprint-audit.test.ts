/**
 * Every option of the schema says here whether keys and values depend on it, and is run to show it:
 * one life with the ordinary options on a folder, then one on the same folder with the option
 * changed, held against a life with the option changed and a folder of its own.
 */
import { cpSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, onTestFinished, test } from "vitest";
import { z } from "zod";
import { EngineOptions, LLM, type LoadOptions } from "#engine";
import { availableIsas } from "../../src/devices/cpu/isa.ts";
import { isBuilt } from "../../src/devices/cpu/library.ts";
import { fixturePath, openRecordedModel } from "../contracts/recorded-model.ts";
import { sized } from "../support/full.ts";
import { writeRandomDrafter } from "../support/random-drafter.ts";

/** Options of a life, by their paths. */
type Values = Readonly<Record<string, unknown>>;

/** An option that is changed, and what goes with it. */
interface Change {
  /** Changed values in the second life. */
  readonly to: Values;
  /** Both lives have these, too. */
  readonly with?: Values;
  readonly model?: "llama" | "longrope";
  /** Nothing stored is read with this value, whatever the fingerprint. */
  readonly readsNothing?: boolean;
}

/** A drafter for the model of most cases. */
const drafter = mkdtempSync(join(tmpdir(), "perigee-audit-drafter-"));
writeRandomDrafter(drafter, {
  ...{ hidden_size: 96, vocab_size: 320, exit_dim: 192, num_draft_layers: 1, rnn: true },
});
afterAll(() => rmSync(drafter, { recursive: true }));

const hasBothIsas = availableIsas().filter(isBuilt).length > 1;

/**
 * Options that keys and values depend on, one a case: what is stored belongs to one value alone. A
 * new option goes here with a value that changes them, or below with one that does not.
 */
const changing: Readonly<Record<string, Change>> = {
  device: { to: { device: "reference" } },
  dtype: { to: { dtype: "bfloat16" } },
  randomWeights: { to: { randomWeights: true } },
  quantization: { to: { dtype: "auto", quantization: "int8" } },
  ...(hasBothIsas && { isa: { to: { isa: "avx2" }, with: { isa: "avx512" } } }),
  "kvCache.blockTokens": { to: { "kvCache.blockTokens": 8 } },
  "kvCache.dtype": { to: { "kvCache.dtype": "bfloat16" } },
  "kvCache.attentionWindow": { to: { "kvCache.attentionWindow": 40 } },
  "kvCache.attentionSinks": {
    to: { "kvCache.attentionSinks": 4 },
    with: { "kvCache.attentionWindow": 40 },
  },
  "scheduler.contextTokensMax": { to: { "scheduler.contextTokensMax": 128 }, model: "longrope" },
};

/**
 * Options that they do not depend on: what one life stored is read by the next one. Some, which have
 * little to do with steps, are changed together.
 */
const keeping: Readonly<Record<string, Change>> = {
  ...(!hasBothIsas && { isa: { to: { isa: availableIsas()[0] } } }),
  threads: { to: { threads: 2 } },
  gpuMemoryUtilization: { to: { gpuMemoryUtilization: 0.5 } },
  overlapSteps: { to: { overlapSteps: true } },
  // More stages have no disk: that they have the fingerprint of one is PP3.
  "pipeline.stages": { to: { "pipeline.stages": 1 } },
  "pipeline.chunkTokens": { to: { "pipeline.chunkTokens": 1024 } },
  "pipeline.shareGpus": { to: { "pipeline.shareGpus": true } },
  "pipeline.timeoutMs": { to: { "pipeline.timeoutMs": 60_000 } },
  "cuda.home": { to: { "cuda.home": "/nonexistent" } },
  "cuda.pythonRoots": { to: { "cuda.pythonRoots": [] } },
  "cuda.cacheFolder": { to: { "cuda.cacheFolder": "/nonexistent" } },
  "cuda.graphs": { to: { "cuda.graphs": false } },
  "kvCache.poolBytes": { to: { "kvCache.poolBytes": 64 * 3072 }, model: "longrope" },
  "kvCache.prefixCaching": { to: { "kvCache.prefixCaching": false }, readsNothing: true },
  "kvCache.partialReuse": { to: { "kvCache.partialReuse": false } },
  "kvCache.copyOnPartialReuse": { to: { "kvCache.copyOnPartialReuse": false } },
  "kvCache.evictionPolicy": { to: { "kvCache.evictionPolicy": "lru" } },
  "kvCache.hostCacheBytes": { to: { "kvCache.hostCacheBytes": 64 * 3072 } },
  "kvCache.diskCacheBytes": { to: { "kvCache.diskCacheBytes": 2 ** 23 } },
  "kvCache.shutdownFlushMs": { to: { "kvCache.shutdownFlushMs": 0 } },
  "kvCache.offloadPriorityMin": { to: { "kvCache.offloadPriorityMin": 0 } },
  "kvCache.onboard": { to: { "kvCache.onboard": "auto" }, readsNothing: true },
  "kvCache.hashAlgorithm": { to: { "kvCache.hashAlgorithm": "sha256_cbor" } },
  "kvCache.eventBufferMax": { to: { "kvCache.eventBufferMax": 0 } },
  "scheduler.stepTokensMax": { to: { "scheduler.stepTokensMax": 32 } },
  "scheduler.runningSequencesMax": { to: { "scheduler.runningSequencesMax": 2 } },
  "scheduler.waitingSequencesMax": { to: { "scheduler.waitingSequencesMax": 2 } },
  "scheduler.longPrefillTokensMax": { to: { "scheduler.longPrefillTokensMax": 7 } },
  "scheduler.prefillMsMax": { to: { "scheduler.prefillMsMax": 0.001 } },
  "scheduler.chunkedPrefill": { to: { "scheduler.chunkedPrefill": false } },
  "scheduler.policy": { to: { "scheduler.policy": "priority" } },
  "scheduler.preemption": { to: { "scheduler.preemption": "recompute" } },
  "scheduler.returnHeadroomBlocks": { to: { "scheduler.returnHeadroomBlocks": 3 } },
  chatTemplate: { to: { chatTemplate: "{{ messages[0].content }}" } },
  servedName: { to: { servedName: "another" } },
  promptLogprobsMax: { to: { promptLogprobsMax: 1 } },
  "grammar.ambiguityMax": { to: { "grammar.ambiguityMax": 100 } },
  "grammar.averageWorkMax": { to: { "grammar.averageWorkMax": 1000 } },
  "grammar.cacheBytesMax": { to: { "grammar.cacheBytesMax": 0 } },
  "grammar.compileMsMax": { to: { "grammar.compileMsMax": 1 } },
  "grammar.lexerStatesMax": { to: { "grammar.lexerStatesMax": 16 } },
  "grammar.memoryBytesMax": { to: { "grammar.memoryBytesMax": 2 ** 20 } },
  "grammar.nestingMax": { to: { "grammar.nestingMax": 1 } },
  "grammar.sourceCharsMax": { to: { "grammar.sourceCharsMax": 1 } },
  "grammar.tokenItemsMax": { to: { "grammar.tokenItemsMax": 1000 } },
  "grammar.tokenWorkMax": { to: { "grammar.tokenWorkMax": 1000 } },
  "grammar.whitespaceMax": { to: { "grammar.whitespaceMax": 1 } },
  engineThread: { to: { engineThread: true } },
  "speculative.kind": { to: { "speculative.kind": "lookup" } },
  "speculative.model": { to: { "speculative.kind": "redrafter", "speculative.model": drafter } },
  "speculative.adaptive": { to: { "speculative.kind": "lookup", "speculative.adaptive": false } },
  "kvTransfer.host": { to: { kvTransfer: {} } },
  "speculative.measureMs": { to: { "speculative.kind": "lookup", "speculative.measureMs": 0 } },
  "speculative.earlierBytes": {
    to: { "speculative.kind": "lookup", "speculative.earlierBytes": 2 ** 20 },
  },
  "speculative.mixed": {
    to: {
      "speculative.kind": "redrafter",
      "speculative.model": drafter,
      "speculative.mixed": true,
    },
  },
  "speculative.lengthMax": { to: { "speculative.lengthMax": 3 } },
  "speculative.width": {
    to: { "speculative.kind": "redrafter", "speculative.model": drafter, "speculative.width": 3 },
  },
  "limits of requests": {
    to: { unreadTokensMax: 8, promptLogprobsMax: 1000, promptBytesMax: 2 ** 20 },
  },
  "work on texts": {
    to: { textWorkers: 1, textDeadlineMs: 20_000, textQueueMax: 8, textMemoryBytes: 2 ** 28 },
  },
  grammars: {
    to: {
      ...{ "grammar.sourceCharsMax": 1000, "grammar.nestingMax": 8, "grammar.compileMsMax": 100 },
      ...{ "grammar.memoryBytesMax": 2 ** 21, "grammar.lexerStatesMax": 100 },
      ...{ "grammar.tokenWorkMax": 2000, "grammar.tokenItemsMax": 2000 },
      ...{ "grammar.ambiguityMax": 200, "grammar.cacheBytesMax": 0, "grammar.whitespaceMax": 4 },
    },
  },
  "hub.cacheDir": { to: { "hub.cacheDir": "/nonexistent" } },
};

/** Two lives each: the short size changes these together, so that a failure names a group. */
const GROUPS: Readonly<Record<string, RegExp>> = {
  "options of the cache": /^kvCache\.(?!poolBytes|prefixCaching|onboard)/,
  "options of the scheduler": /^scheduler\.(?!chunkedPrefill)/,
  "other options":
    /^(threads|gpuMemory|speculative|cuda\.|chatTemplate|servedName|hub|limits|work|grammars$)/,
};

/** Options of one group as one change; those of `grammars` have cases of their own under it. */
function together(changes: typeof keeping): Record<string, Change> {
  const grouped: Record<string, Change> = {};
  for (const [name, change] of Object.entries(changes)) {
    if (name.startsWith("grammar.")) continue;
    const [group] = Object.entries(GROUPS).find(([, pattern]) => pattern.test(name)) ?? [name];
    grouped[group] = { ...change, to: { ...grouped[group]?.to, ...change.to } };
  }
  return grouped;
}

/** Options whose value is another checkpoint or folder, or none: never another computation. */
const naming: Readonly<Record<string, string>> = {
  "hub.revision": "names other files, which the fingerprint knows by their contents",
  "kvCache.diskCacheDir": "names the folder itself",
  mock: "stands in for the model: it has no folder, and a fingerprint of its own",
};

const BLOCK_BYTES = 3072;
const ordinary: Values = {
  device: "cpu",
  dtype: "float32",
  engineThread: false,
  threads: 1,
  "kvCache.blockTokens": 4,
  "kvCache.poolBytes": 32 * BLOCK_BYTES,
  "kvCache.hostCacheBytes": 16 * BLOCK_BYTES,
  "kvCache.diskCacheBytes": 2 ** 22,
  "kvCache.onboard": "always",
  "scheduler.runningSequencesMax": 8,
  "scheduler.stepTokensMax": 256,
};

/** Layers, heads and sizes of the recorded Llama, so that a block takes as many bytes. */
const longrope = {
  ...{ model_type: "phi3", hidden_size: 96, intermediate_size: 112, num_hidden_layers: 3 },
  ...{ num_attention_heads: 6, num_key_value_heads: 2, vocab_size: 320 },
  ...{ max_position_embeddings: 1024, original_max_position_embeddings: 200 },
  rope_scaling: {
    type: "longrope",
    short_factor: Array.from({ length: 8 }, (_, i) => 1 + i / 16),
    long_factor: Array.from({ length: 8 }, (_, i) => 2 + i),
  },
};

const [, , , longest] = openRecordedModel("llama").cases;
const prompt = { promptTokenIds: longest?.prompt ?? [] };

function scratchFolder(): string {
  const directory = mkdtempSync(join(tmpdir(), "perigee-audit-"));
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }));
  return directory;
}

/** A model of made-up weights: `config` in a folder. */
function configFolder(config: object): string {
  const folder = scratchFolder();
  writeFileSync(join(folder, "config.json"), JSON.stringify(config));
  return folder;
}

/** `{ "kvCache.dtype": "int8" }` as options. */
function optionsOf(values: Values): LoadOptions {
  const options: Record<string, unknown> = {};
  for (const [path, value] of Object.entries(values)) {
    const names = path.split(".");
    const last = names.pop() ?? path;
    let inside = options;
    for (const name of names) {
      inside[name] ??= {};
      inside = inside[name] as Record<string, unknown>; // made in the line before
    }
    inside[last] = value;
  }
  return options;
}

interface Life {
  readonly cachedTokens: number;
  readonly tokens: readonly number[];
  /** Of the tokens, which show what the tokens themselves may hide. */
  readonly logprobs: readonly number[];
}

/** Loads the model, asks it the prompt, and pushes what it computed to the disk. */
async function live(path: string, folder: string, values: Values): Promise<Life> {
  const all = { ...values, "kvCache.diskCacheDir": folder };
  await using llm = await LLM.load(path, { ...optionsOf(all), onWarning: () => {} });
  const [result] = await llm.generate(prompt, {
    ...{ temperature: 0, maxTokens: 16, minTokens: 16, logprobs: 0 },
  });
  for (let place = 0; place < 3; place++) {
    const promptTokenIds = Array.from({ length: 90 }, (_, at) => 3 + ((at * 7 + place) % 300));
    const one = { temperature: 0, maxTokens: 1, cacheSalt: `crowd ${place}` };
    await llm.generate({ promptTokenIds }, one);
    // What left for the disk makes room for what follows it.
    await expect.poll(() => llm.stats().cache?.levels[2]?.held ?? 0, { timeout: 20_000 }).toBe(0);
  }
  const [completion] = result?.completions ?? [];
  return {
    cachedTokens: result?.cachedTokens ?? Number.NaN,
    tokens: completion?.tokenIds ?? [],
    logprobs: (completion?.logprobs ?? []).map(({ logprob }) => logprob),
  };
}

/** A folder on which a life of ordinary options was lived: copied, since many tests want one. */
let lived: string | null = null;
afterAll(() => {
  if (lived !== null) rmSync(lived, { recursive: true, force: true });
});

/** A folder as a life with `first` leaves it. */
async function usedFolder(path: string, first: Values): Promise<string> {
  const folder = scratchFolder();
  if (lived !== null && first === ordinary) {
    cpSync(lived, folder, { recursive: true });
    return folder;
  }
  expect((await live(path, folder, first)).cachedTokens).toBe(0);
  if (first === ordinary) {
    lived = mkdtempSync(join(tmpdir(), "perigee-audit-"));
    cpSync(folder, lived, { recursive: true });
  }
  return folder;
}

/** The second life on a used folder, the same on its own folder, and how many stores there are. */
async function secondLife({ to, with: both, model = "llama" }: Change) {
  const isLlama = model === "llama";
  const path = isLlama ? fixturePath("llama") : configFolder(longrope);
  const more = isLlama ? both : { ...both, randomWeights: true };
  const first: Values = more === undefined ? ordinary : { ...ordinary, ...more };
  const second: Values = { ...first, ...to };
  const folder = await usedFolder(path, first);
  const after = await live(path, folder, second);
  const cold = await live(path, scratchFolder(), second);
  return { after, cold, stores: readdirSync(folder).length };
}

describe("an option that keys and values depend on", () => {
  test.each(Object.entries(changing))("%s parts what is stored", async (_, change) => {
    const { after, cold, stores } = await secondLife(change);
    expect(after).toEqual(cold);
    expect(after).toMatchObject({ cachedTokens: 0 });
    expect(after.tokens).toHaveLength(16);
    expect(stores).toBe(2);
  });
});

describe("an option that they do not depend on", () => {
  test.each(Object.entries(sized(together(keeping), keeping)))(
    "%s keeps what is stored",
    async (_, change) => {
      const { after, cold, stores } = await secondLife(change);
      expect(after.tokens).toEqual(cold.tokens);
      expect(after.logprobs).toEqual(cold.logprobs);
      expect(after.tokens).toHaveLength(16);
      expect(stores).toBe(1);
      if (change.readsNothing !== true) expect(after.cachedTokens).toBeGreaterThan(30);
    },
  );
});

test("every option of the schema says which side it is on", () => {
  const change = Object.values(changing).flatMap(({ to }) => Object.keys(to));
  const keep = Object.values(keeping).flatMap(({ to }) => Object.keys(to));
  const said = new Set([...change, ...keep, ...Object.keys(naming)]);
  expect([...said].toSorted()).toEqual(optionPaths().toSorted());
  expect(change.filter((option) => keep.includes(option))).toEqual([]);
});

interface SchemaNode {
  readonly properties?: Readonly<Record<string, SchemaNode>>;
}

/** Paths of all options, nested ones as `kvCache.dtype`. */
function optionPaths(): string[] {
  const paths = (node: SchemaNode, path: string): string[] =>
    node.properties === undefined
      ? [path]
      : Object.entries(node.properties).flatMap(([name, inside]) =>
          paths(inside, path === "" ? name : `${path}.${name}`),
        );
  return paths(z.toJSONSchema(EngineOptions, { io: "input" }) as SchemaNode, ""); // plain objects
}
