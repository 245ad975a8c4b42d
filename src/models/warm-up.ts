import type { Device, DeviceTensor, KvPool } from "#devices";
import type { Decoder } from "./decoder.ts";
import type { StepInput } from "./step-input.ts";

/** Which steps are made ahead. */
export interface WarmUpOptions {
  readonly device: Device;
  readonly decoder: Decoder;
  /** The one that steps will have. */
  readonly cache: KvPool;
  /** What `Decoder.stage` will be given, so that these are the steps that come. */
  readonly drawn?: DeviceTensor;
  /** Most sequences that draw at once; what the decoder takes by default. */
  readonly sequencesMax?: number;
  /** Longest context to be ready for; longer ones are made when they come. */
  readonly contextTokens?: number;
  readonly onProgress?: (progress: WarmUpProgress) => void;
}

export interface WarmUpProgress {
  readonly done: number;
  readonly total: number;
}

/** Chats and documents of a usual length: where steps depend on it, each doubling takes time. */
const contextTokensDefault = 4096;

/** A device runs a step as it is at first, and keeps it the second time. */
const runs = 2;

/**
 * Makes decoding steps of all sizes ahead on a device that replays them, so that no request waits
 * for it. Their sequences have no context and no slot: nothing is read or written that is anyone's.
 * Largest first: what ops keep between their kernels then has its size at once. Where nothing is
 * replayed this does nothing.
 */
export async function warmUp(options: WarmUpOptions): Promise<void> {
  const { device, decoder, cache, drawn, onProgress } = options;
  if (!device.replays) return;
  const steps = stepsOf(options);
  for (const [index, { sequences, contextTokens }] of steps.entries()) {
    const step = emptyStep(sequences, contextTokens);
    for (let run = 0; run < runs; run++) {
      decoder.stage(step, drawn);
      decoder.forward(cache);
    }
    await device.synchronize();
    onProgress?.({ done: index + 1, total: steps.length });
  }
}

interface StepSize {
  readonly sequences: number;
  readonly contextTokens: number;
}

/** Largest first. */
function stepsOf({ device, decoder, cache, ...options }: WarmUpOptions): StepSize[] {
  const { drawingMax } = decoder;
  const { sequencesMax = drawingMax, contextTokens = contextTokensDefault } = options;
  const longest = Math.min(contextTokens, decoder.contextTokensMax(cache));
  const pad = (count: number) => device.paddedBatch(count, drawingMax);
  const sizes = roundedUpTo(Math.min(sequencesMax, drawingMax), pad);
  return sizes.flatMap((sequences) => {
    const pad = (tokens: number) => decoder.paddedContext(tokens, sequences, cache);
    return roundedUpTo(longest, pad).map((contextTokens) => ({ sequences, contextTokens }));
  });
}

/** What `pad` makes of 1 up to `most`, falling. */
function roundedUpTo(most: number, pad: (value: number) => number): number[] {
  const found: number[] = [];
  for (let value = 1; value <= most; value = (found[0] ?? value) + 1) found.unshift(pad(value));
  return found;
}

/** A step of sequences that have nothing. */
function emptyStep(sequences: number, contextTokens: number): StepInput {
  const zeros = new Int32Array(sequences);
  return {
    tokens: sequences,
    sequences,
    tokenIds: zeros,
    positions: zeros,
    slots: new Int32Array(sequences).fill(-1),
    queryStarts: Int32Array.from({ length: sequences + 1 }, (_, row) => row),
    contextLengths: zeros,
    blockTables: new Int32Array(0),
    queryLengthMax: 1,
    contextLengthMax: contextTokens,
    draws: true,
  };
}
