import type { Device, DeviceTensor, KvPool } from "#devices";
import type { Decoder } from "./decoder.ts";
import type { StepInput } from "./step-input.ts";

/** Options of the warm-up. */
export interface WarmUpOptions {
  readonly device: Device;
  readonly decoder: Decoder;
  /** The cache of the later steps. */
  readonly cache: KvPool;
  /** `sampled` of the later calls of `Decoder.stage`, so that their graphs are captured. */
  readonly sampled?: DeviceTensor;
  /** Most sequences that sample at once; the decoder's limit by default. */
  readonly sequencesMax?: number;
  /** Longest context to capture for; longer ones are captured at their first step. */
  readonly contextTokens?: number;
  /**
   * Steps of drafts that are captured, too: most rows, and `DecoderLimits.treeTokensMax`. Default:
   * null, none; they are captured at their first step.
   */
  readonly drafts?: { readonly rowsMax: number; readonly treeTokensMax: number } | null;
  readonly onProgress?: (progress: WarmUpProgress) => void;
}

export interface WarmUpProgress {
  readonly done: number;
  readonly total: number;
}

/** Usual chats and documents: where steps depend on the context, each doubling takes time. */
const contextTokensDefault = 4096;

/** A device runs a step op by op at first, and captures it the second time. */
const runs = 2;

/**
 * Captures decode steps of all sizes ahead on a device that replays them, so that no request waits
 * for it. Their sequences have no context and no slot: no sequence's data is read or written.
 * Largest first: the ops' scratch memory then reaches its size at once. Without replays this does
 * nothing.
 */
export async function warmUp(options: WarmUpOptions): Promise<void> {
  const { device, decoder, cache, sampled, onProgress } = options;
  if (!device.replays) return;
  const steps = stepsOf(options);
  for (const [index, size] of steps.entries()) {
    const step = emptyStep(size, decoder.layout.groups.length);
    for (let run = 0; run < runs; run++) {
      decoder.stage(step, sampled);
      decoder.forward(cache);
    }
    await device.synchronize();
    onProgress?.({ done: index + 1, total: steps.length });
  }
}

interface StepSize {
  readonly sequences: number;
  readonly contextTokens: number;
  /** Whether sequences are rows of drafts. Default: false. */
  readonly rowsApart?: boolean;
  /** Words of a row of a tree mask. Default: 0, there is none. */
  readonly treeWords?: number;
}

/** Largest first. */
function stepsOf({ device, decoder, cache, ...options }: WarmUpOptions): StepSize[] {
  const { samplingMax } = decoder;
  const { sequencesMax = samplingMax, contextTokens = contextTokensDefault } = options;
  const longest = Math.min(contextTokens, decoder.contextTokensMax(cache));
  const pad = (count: number) => device.paddedBatch(count, samplingMax);
  const sizes = roundedUpTo(Math.min(sequencesMax, samplingMax), pad);
  const plain = sizes.flatMap((sequences) => {
    const pad = (tokens: number) => decoder.paddedContext(tokens, sequences, cache);
    return roundedUpTo(longest, pad).map((contextTokens) => ({ sequences, contextTokens }));
  });
  const { rowsMax = 0, treeTokensMax = 0 } = options.drafts ?? {};
  // Short contexts alone: each more doubles the graphs.
  const drafts = roundedUpTo(Math.min(rowsMax, samplingMax), pad).map((sequences) => {
    const contextTokens = decoder.paddedContext(1, sequences, cache, true);
    return { sequences, contextTokens, rowsApart: true };
  });
  const treeWords = Math.ceil(treeTokensMax / 32);
  const trees = treeWords === 0 ? [] : drafts.map((size) => ({ ...size, treeWords }));
  return [...plain, ...drafts, ...trees];
}

/** Distinct results of `pad` for 1 up to `most`, falling. */
function roundedUpTo(most: number, pad: (value: number) => number): number[] {
  const found: number[] = [];
  for (let value = 1; value <= most; value = (found[0] ?? value) + 1) found.unshift(pad(value));
  return found;
}

/** A step of sequences without context or slots. */
function emptyStep(size: StepSize, groups: number): StepInput {
  const { sequences, contextTokens, rowsApart = false, treeWords = 0 } = size;
  const zeros = new Int32Array(sequences);
  const slots = new Int32Array(sequences).fill(-1);
  const tables = { slots, blockTables: new Int32Array(0) };
  return {
    tokens: sequences,
    sequences,
    tokenIds: zeros,
    positions: zeros,
    queryStarts: Int32Array.from({ length: sequences + 1 }, (_, row) => row),
    contextLengths: zeros,
    tables: Array.from({ length: groups }, () => tables),
    queryLengthMax: 1,
    contextLengthMax: contextTokens,
    samplesAll: true,
    rowsApart,
    ...(treeWords > 0 && {
      treeMask: new Uint32Array(sequences * treeWords),
      treeStarts: zeros,
    }),
  };
}
