import type { CacheLevelName, CacheReport, FlushReport, ModelInfo } from "#engine";

/** The capacity of one cache level. */
export interface LevelSize {
  readonly level: CacheLevelName;
  readonly blocks: number;
  readonly tokens: number;
  readonly bytes: number;
}

const MS_PER_SECOND = 1000;
const UNITS = ["bytes", "KiB", "MiB", "GiB", "TiB"] as const;

/** The cache levels of a loaded model; none for a model without a cache. */
export function cacheSizes(
  info: Pick<ModelInfo, "blockTokens" | "bytesPerBlock" | "groupWindows">,
  report: CacheReport | null,
): readonly LevelSize[] {
  const { blockTokens, bytesPerBlock, groupWindows } = info;
  return (report?.levels ?? []).map(({ level, total }) => ({
    level,
    blocks: total,
    // The same tokens have a block in each group of layers.
    tokens: Math.floor(total / groupWindows.length) * blockTokens,
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

/** What was written to disk at the end, and what was not and why, in one line. */
export function flushText(report: FlushReport): string {
  const { blocks, bytes, ms, leftForTime, leftForRoom, failed } = report;
  const lost = [
    ...(leftForTime > 0 ? [`${leftForTime} for want of time (--shutdown-flush-ms)`] : []),
    ...(leftForRoom > 0 ? [`${leftForRoom} for want of room (--disk-cache-bytes)`] : []),
    ...(failed > 0 ? [`${failed} that the disk refused`] : []),
  ];
  const without = lost.length > 0 ? `; without ${lost.join(", ")}` : "";
  const took = `${(ms / MS_PER_SECOND).toFixed(1)} s`;
  return `KV cache: wrote ${blocks} blocks, ${binarySize(bytes)}, to disk in ${took}${without}`;
}

/** Bytes in the largest unit with a value of at least 1, with one decimal. */
export function binarySize(bytes: number): string {
  let unit = 0;
  let value = bytes;
  while (value >= 1024 && unit < UNITS.length - 1) {
    value /= 1024;
    unit++;
  }
  return `${unit === 0 ? value : value.toFixed(1)} ${UNITS[unit]}`;
}
