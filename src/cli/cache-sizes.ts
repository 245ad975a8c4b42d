import type { CacheLevelName, CacheReport, ModelInfo } from "#engine";

/** How much one level of a cache can hold. */
export interface LevelSize {
  readonly level: CacheLevelName;
  readonly blocks: number;
  readonly tokens: number;
  readonly bytes: number;
}

const UNITS = ["bytes", "KiB", "MiB", "GiB", "TiB"] as const;

/** The levels that a loaded model's cache has; none for a model without a cache. */
export function cacheSizes(
  { blockTokens, bytesPerBlock }: Pick<ModelInfo, "blockTokens" | "bytesPerBlock">,
  report: CacheReport | null,
): readonly LevelSize[] {
  return (report?.levels ?? []).map(({ level, total }) => ({
    level,
    blocks: total,
    tokens: total * blockTokens,
    bytes: total * bytesPerBlock,
  }));
}

/** Sizes in one line: "device 64 blocks, 1024 tokens, 8.0 MiB; host …". */
export function sizesText(sizes: readonly LevelSize[]): string {
  return sizes
    .map(({ level, blocks, tokens, bytes }) => {
      return `${level} ${blocks} blocks, ${tokens} tokens, ${binarySize(bytes)}`;
    })
    .join("; ");
}

/** Bytes in the largest unit that leaves at least 1, with one digit behind the point. */
export function binarySize(bytes: number): string {
  let unit = 0;
  let value = bytes;
  while (value >= 1024 && unit < UNITS.length - 1) {
    value /= 1024;
    unit++;
  }
  return `${unit === 0 ? value : value.toFixed(1)} ${UNITS[unit]}`;
}
