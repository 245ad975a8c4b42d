/** The native library of the router (native/relay). */
import koffi, { type LibraryHandle } from "koffi";
import { findNativeFile } from "#base";

/** Addresses are bigints. */
export interface RelayLibrary {
  /**
   * Ascending bounds of gaps in us. Null: the system has no room for a thread or its descriptors.
   */
  open(gapBoundsUs: BigInt64Array, wakeFd: Int32Array): bigint | null;
  close(context: bigint): void;
  /** 1: lent. */
  lend(context: bigint, connections: LentConnections, loan: Uint32Array): number;
  /** `GapCounts` (native/relay/gap-counts.h): a number for each bound, and four more. */
  gaps(context: bigint, into: Float64Array): void;
  /** How many entries of `told` were written. */
  drain(context: bigint, which: Looked, told: Uint32Array, max: number): number;
  /** Bytes for `left`; negative: there is no such loan. */
  end(context: bigint, loan: number): number;
  left(context: bigint, into: Uint8Array): void;
}

/** Which loans a drain looks at (native/relay/relay.h). */
export const LOOKED = { stopped: 0, free: 1, all: 2 } as const;

export type Looked = (typeof LOOKED)[keyof typeof LOOKED];

export interface LentConnections {
  readonly worker: number;
  readonly client: number;
  /** 0: streams without markers. */
  readonly choices: number;
  /** A bit for each choice that has not ended. */
  readonly live: bigint;
  readonly contentBytesMax: number;
  /** 0: there is none; below 0: gaps are not counted. */
  readonly gapDeadlineUs: number;
  /** Since the last token came. */
  readonly agoUs: number;
}

let loaded: RelayLibrary | null | undefined;

/** Null where it was not built, or is another system's. */
export function relayLibrary(): RelayLibrary | null {
  if (loaded === undefined) loaded = load();
  return loaded;
}

function load(): RelayLibrary | null {
  if (process.platform !== "linux") return null;
  const path = findNativeFile("relay");
  if (path === null) return null;
  try {
    return bind(koffi.load(path));
  } catch {
    return null;
  }
}

function bind(handle: LibraryHandle): RelayLibrary {
  const native = (signature: string) => handle.func(signature);
  const lend = native(
    "int32_t perigee_relay_lend(void *context, int32_t worker, int32_t client, " +
      "int32_t choices, uint64_t live, int64_t contentBytesMax, int64_t gapDeadlineUs, " +
      "int64_t agoUs, uint32_t *loan)",
  );
  const open = native(
    "void *perigee_relay_open(const int64_t *gapBoundsUs, int32_t bounds, int32_t *wakeFd)",
  );
  const end = native("int64_t perigee_relay_end(void *context, uint32_t loan)");
  return {
    open: (gapBoundsUs, wakeFd) => open(gapBoundsUs, gapBoundsUs.length, wakeFd),
    close: native("void perigee_relay_close(void *context)"),
    lend: (context, lent, loan) => {
      const { worker, client, choices, live, contentBytesMax, gapDeadlineUs, agoUs } = lent;
      const limits = [contentBytesMax, gapDeadlineUs, agoUs];
      return lend(context, worker, client, choices, live, ...limits, loan);
    },
    gaps: native("void perigee_relay_gaps(void *context, double *into)"),
    drain: native(
      "int32_t perigee_relay_drain(void *context, int32_t which, void *told, int32_t max)",
    ),
    // A 64-bit number may come as a bigint.
    end: (context, loan) => Number(end(context, loan)),
    left: native("void perigee_relay_left(void *context, uint8_t *into)"),
  };
}
