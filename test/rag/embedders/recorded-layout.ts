/** Folders in the layouts of published models, with what sentence-transformers makes of them. */
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, onTestFinished } from "vitest";

/** Contents of JSON files by their paths in a folder. */
export type Files = Readonly<Record<string, unknown>>;

/** A folder of an embedding model, and its vectors. */
export interface RecordedEmbedder {
  readonly files: Files;
  /** Prompts that its files do not have. */
  readonly given?: { readonly query: string; readonly document: string };
  readonly documentTokens: readonly number[];
  readonly queries: readonly (readonly number[])[];
  readonly documents: readonly (readonly number[])[];
}

/** A folder of a cross-encoder, and its scores of `Recorded.pairs`. */
export interface RecordedReranker {
  /** Fields of config.json beside the layout's own. */
  readonly config: Files;
  /** The same of tokenizer_config.json. */
  readonly tokens?: Files;
  readonly scores: readonly number[];
}

/** One layout: `python -m training.recordings.embedders` made it. */
export interface Recorded {
  readonly tokenizer: {
    readonly base: string;
    readonly patch: Files;
    readonly vocabulary: number;
  };
  readonly tokens: Files;
  readonly queries: readonly string[];
  readonly documents: readonly string[];
  readonly pairs: readonly (readonly [query: string, text: string])[];
  readonly embedders: Readonly<Record<string, RecordedEmbedder>>;
  readonly rerankers: Readonly<Record<string, RecordedReranker>>;
}

function fixture(path: string): string {
  return fileURLToPath(new URL(`../../fixtures/${path}`, import.meta.url));
}

function readJson(path: string) {
  return JSON.parse(readFileSync(fixture(path), "utf8"));
}

/** What was recorded of a layout. */
export function recordedLayout(layout: string): Recorded {
  return readJson(`embedders/${layout}/expected.json`);
}

/** The layout's model in a folder of its own, with `files` beside it or in place of its own. */
export function layoutFolder(layout: string, files: Files, name = layout): string {
  const { tokenizer, tokens } = recordedLayout(layout);
  const scratch = mkdtempSync(join(tmpdir(), "perigee-layout-"));
  onTestFinished(() => rmSync(scratch, { recursive: true }));
  const folder = join(scratch, name);
  mkdirSync(folder);
  copyFileSync(fixture(`embedders/${layout}/model.safetensors`), join(folder, "model.safetensors"));
  const own = {
    "config.json": readJson(`embedders/${layout}/config.json`),
    "tokenizer.json": tokenizerOf(tokenizer),
    "tokenizer_config.json": tokens,
  };
  for (const [path, content] of Object.entries({ ...own, ...files })) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), JSON.stringify(content));
  }
  return folder;
}

/** A cross-encoder's folder. */
export function rerankerFolder(layout: string, { config, tokens = {} }: RecordedReranker): string {
  return layoutFolder(layout, {
    "config.json": { ...readJson(`embedders/${layout}/config.json`), ...config },
    "tokenizer_config.json": { ...recordedLayout(layout).tokens, ...tokens },
  });
}

function tokenizerOf({ base, patch, vocabulary }: Recorded["tokenizer"]): Files {
  const json = readJson(`tokenizers/${base}/tokenizer.json`);
  return { ...json, ...patch, model: shortened(json.model, vocabulary) };
}

/** The same model of a tokenizer with its first tokens alone. */
function shortened(model: Record<string, unknown>, size: number): Files {
  const { vocab, merges } = model;
  if (Array.isArray(vocab)) return { ...model, vocab: vocab.slice(0, size) };
  const kept = Object.entries(vocab ?? {}).filter(([, place]) => place < size);
  const names = new Set(kept.map(([token]) => token));
  const short = { ...model, vocab: Object.fromEntries(kept) };
  if (!Array.isArray(merges)) return short;
  const pairs = merges.map((merge) => (typeof merge === "string" ? merge.split(" ") : merge));
  return { ...short, merges: pairs.filter((pair) => names.has(pair.join(""))) };
}

/** Asserts that the vectors are those of length 1 that were recorded, to 1e-4. */
export function expectVectors(
  actual: readonly Float32Array[],
  expected: readonly (readonly number[])[],
): void {
  expect(actual).toHaveLength(expected.length);
  for (const [place, vector] of actual.entries()) {
    const wanted = expected[place] ?? [];
    const length = Math.hypot(...wanted);
    expect(vector).toHaveLength(wanted.length);
    const worst = wanted.reduce(
      (most, value, i) => Math.max(most, Math.abs(value / length - (vector[i] ?? Number.NaN))),
      0,
    );
    expect(worst).toBeLessThan(1e-4);
  }
}
