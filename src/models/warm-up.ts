import type { Device, DeviceTensor, KvCache } from "#devices";
import type { Decoder } from "./decoder.ts";
import type { StepInput } from "./step-input.ts";

/** Which steps are made ahead. */
export interface WarmUpOptions {
  readonly device: Device;
  readonly decoder: Decoder;
  /** The one that steps will have. */
  readonly cache: KvCache;
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

/** Chats and documents of a usual length: each doubling beyond costs as much start time again. */
const contextTokensDefault = 4096;

/** `Decoder.stage` rounds contexts up to powers of two from here on. */
const shortestContext = 512;

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

function stepsOf({ device, decoder, sequencesMax, contextTokens }: WarmUpOptions): StepSize[] {
  const most = Math.min(sequencesMax ?? decoder.drawingMax, decoder.drawingMax);
  const longest = contextTokens ?? contextTokensDefault;
  const contexts: number[] = [];
  for (let tokens = shortestContext; tokens < 2 * longest; tokens *= 2) contexts.unshift(tokens);
  const sizes: number[] = [];
  for (let count = 1; count <= most; count++) {
    count = device.paddedBatch(count, decoder.drawingMax);
    sizes.unshift(count);
  }
  return sizes.flatMap((sequences) =>
    contexts.map((contextTokens) => ({ sequences, contextTokens })),
  );
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
