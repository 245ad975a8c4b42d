/** Hashes all that stored keys and values depend on, so that no model ever reads another's. */
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { type FileHandle, open, readdir, realpath, stat } from "node:fs/promises";
import { basename, join } from "node:path";
import type { Checkpoint } from "#checkpoint";
import type { WeightFormat } from "#devices";

/** All that a block's bytes depend on, except its tokens. */
export interface FingerprintInput {
  readonly checkpoint: Pick<Checkpoint, "path" | "config" | "tensors">;
  /** `Device.arithmetic`. */
  readonly arithmetic: string;
  readonly weightFormat: WeightFormat;
  /** `KvPool.layout` of the device's cache: formats, shapes and their order in memory. */
  readonly layout: string;
  /** Whether weights are made up rather than read. */
  readonly randomWeights: boolean;
  /** Radians per position of each rotated pair, as served; null: positions are learned. */
  readonly rope: { readonly frequencies: Float32Array; readonly attentionFactor: number } | null;
  /** The group of blocks that each layer's keys and values are in, and its index in a block. */
  readonly layerPlaces: readonly (readonly [group: number, layer: number])[];
  /** The attention window of each layer's queries; null: all positions. */
  readonly layerWindows: readonly (number | null)[];
  /** First positions that stay visible beside those windows. */
  readonly sinkTokens: number;
  /** The same of a drafter whose keys and values are in the blocks, too. Default: null, none. */
  readonly drafter?: FingerprintInput | null;
  /** Version of this package; read from its manifest by default. */
  readonly release?: string;
  /**
   * Whether times of writing count. Off: machines with copies of the same files agree, and a change
   * that is in none of 2048 pieces of a file is missed. Default: on.
   */
  readonly fileTimes?: boolean;
}

/** Pieces of each weight file that are read, evenly spread, and the size of one. */
const SAMPLES = 256;
/** The same where a file's time of writing cannot tell: 8 MiB of each file. */
const SAMPLES_ALONE = 2048;
const SAMPLE_BYTES = 4096;
const DIGITS = 32;
/** Weight files in a hub's cache are links to files named by their SHA-256. */
const CONTENT_NAME = /^[0-9a-f]{64}$/;

/**
 * 32 hexadecimal digits, different where keys and values may differ: another configuration, other
 * weights, other angles of positions, another format or computation, another release (which
 * may compute them differently, or lay them out differently).
 *
 * Weights are identified by their names, types and shapes, and per file by its size and 256 pieces
 * of its contents. A change too small to be in one of them changes the file's time of writing,
 * which counts too, unless the file's name is the digest of its contents. Reads about 1 MiB per
 * file, which loading reads whole anyway. Rejects where a file cannot be read.
 */
export async function modelFingerprint(input: FingerprintInput): Promise<string> {
  const { checkpoint, arithmetic, weightFormat, layout, randomWeights } = input;
  const { rope, layerWindows, layerPlaces, sinkTokens, release = packageRelease() } = input;
  const { drafter = null, fileTimes = true } = input;
  const tensors = [...checkpoint.tensors.values()]
    .map(({ name, dtype, shape }) => [name, dtype, shape] as const)
    .toSorted(([a], [b]) => (a < b ? -1 : 1));
  const files: string[] = [];
  for (const path of await weightFiles(checkpoint.path)) {
    files.push(await fileIdentity(path, fileTimes));
  }
  const angles = rope && [...rope.frequencies, rope.attentionFactor];
  const computed = [release, arithmetic, weightFormat, randomWeights];
  const seen = [angles, layerWindows, layerPlaces, sinkTokens];
  const beside = drafter === null ? [] : [await modelFingerprint({ ...drafter, fileTimes })];
  const all = [...computed, layout, ...seen, checkpoint.config, tensors, files, ...beside];
  return createHash("sha256").update(JSON.stringify(all)).digest("hex").slice(0, DIGITS);
}

async function weightFiles(path: string): Promise<string[]> {
  if ((await stat(path)).isFile()) return [path];
  const names = await readdir(path);
  const weights = names.filter((name) => /\.(safetensors|gguf)$/.test(name));
  return weights.toSorted().map((name) => join(path, name));
}

/** A digest of a file's size, its time of writing or digest name, and its pieces. */
async function fileIdentity(path: string, fileTimes: boolean): Promise<string> {
  const name = basename(await realpath(path));
  const file = await open(path);
  try {
    const { size, mtimeMs } = await file.stat();
    const hash = createHash("sha256").update(`${size} `);
    if (fileTimes) hash.update(CONTENT_NAME.test(name) ? name : String(mtimeMs));
    const piece = Buffer.alloc(SAMPLE_BYTES);
    for (const position of samplePositions(size, fileTimes ? SAMPLES : SAMPLES_ALONE)) {
      hash.update(piece.subarray(0, await readAt(file, piece, position)));
    }
    return hash.digest("hex");
  } finally {
    await file.close();
  }
}

/** Where the pieces begin: the first at the file's start, the last one ends where it ends. */
function samplePositions(size: number, samples: number): Set<number> {
  const last = Math.max(0, size - SAMPLE_BYTES);
  const positions = Array.from({ length: samples }, (_, index) =>
    Math.floor((last * index) / (samples - 1)),
  );
  return new Set(positions); // In a small file many are the same.
}

async function readAt(file: FileHandle, piece: Buffer, position: number): Promise<number> {
  const { bytesRead } = await file.read(piece, 0, piece.length, position);
  return bytesRead;
}

/** package.json is three folders up from src/engine/tiers and from dist/engine/tiers. */
function packageRelease(): string {
  const path = new URL("../../../package.json", import.meta.url);
  const manifest: unknown = JSON.parse(readFileSync(path, "utf8"));
  return String((manifest as { version?: unknown }).version); // our own file
}
