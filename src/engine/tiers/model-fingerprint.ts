/** Hashes all that stored keys and values depend on, so that no model ever reads another's. */
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { type Checkpoint, weightsIdentity } from "#checkpoint";
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

const DIGITS = 32;

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
  const files = await weightsIdentity(checkpoint.path, { fileTimes });
  const angles = rope && [...rope.frequencies, rope.attentionFactor];
  const computed = [release, arithmetic, weightFormat, randomWeights];
  const seen = [angles, layerWindows, layerPlaces, sinkTokens];
  const beside = drafter === null ? [] : [await modelFingerprint({ ...drafter, fileTimes })];
  const all = [...computed, layout, ...seen, checkpoint.config, tensors, files, ...beside];
  return createHash("sha256").update(JSON.stringify(all)).digest("hex").slice(0, DIGITS);
}

/** package.json is three folders up from src/engine/tiers and from dist/engine/tiers. */
function packageRelease(): string {
  const path = new URL("../../../package.json", import.meta.url);
  const manifest: unknown = JSON.parse(readFileSync(path, "utf8"));
  return String((manifest as { version?: unknown }).version); // our own file
}
