import type { Activation, Device, DeviceTensor, WeightFormat } from "#devices";
import type { EncoderSpec, ScoreHeadSpec } from "./encoder-spec.ts";

/** The largest batch, which an encoder's memory is allocated for. */
export interface EncoderLimits {
  readonly stepTokensMax: number;
  readonly sequencesMax: number;
}

/** All memory of a batch. Letters: `devices/ops.ts`. */
export interface EncoderBuffers {
  /** [T], [T], [T] and [S + 1] i32. */
  readonly tokenIds: DeviceTensor;
  readonly positions: DeviceTensor;
  readonly tokenTypes: DeviceTensor;
  readonly starts: DeviceTensor;
  /** [T, E] f32: the rows before attention, and before the feed-forward. */
  readonly x: DeviceTensor;
  readonly y: DeviceTensor;
  /** [T, E]. */
  readonly input: Activation;
  /** [T, 3 * H * D] f32. */
  readonly qkv: DeviceTensor;
  /** [T, H * D]. */
  readonly attended: Activation;
  /** [T, F] f32, with a gate [T, 2F], and [T, F]. */
  readonly wide: DeviceTensor;
  readonly activated: Activation;
  /** [S, E] f32. */
  readonly pooled: DeviceTensor;
  readonly head: ScoreHeadBuffers | null;
}

/** Memory of a head that scores pairs. */
export interface ScoreHeadBuffers {
  /** [S, E], the pooled rows, then what the output layer reads. */
  readonly input: Activation;
  /** [S, E] f32. */
  readonly dense: DeviceTensor;
  /** [S, E] f32 where there is a norm: what it reads. */
  readonly activated: DeviceTensor | null;
  /** [S, 1] f32. */
  readonly scores: DeviceTensor;
}

/** Throws OUT_OF_MEMORY. */
export function allocateEncoderBuffers(
  device: Device,
  spec: EncoderSpec,
  { limits, format }: { readonly limits: EncoderLimits; readonly format: WeightFormat },
): EncoderBuffers {
  const { stepTokensMax: tokens, sequencesMax: sequences } = limits;
  const { hiddenSize, feedForwardSize, gated, head } = spec;
  const width = spec.heads * spec.headDim;
  return {
    tokenIds: device.allocate("i32", [tokens]),
    positions: device.allocate("i32", [tokens]),
    tokenTypes: device.allocate("i32", [tokens]),
    starts: device.allocate("i32", [sequences + 1]),
    x: device.allocate("f32", [tokens, hiddenSize]),
    y: device.allocate("f32", [tokens, hiddenSize]),
    input: device.allocateActivation(format, tokens, hiddenSize),
    qkv: device.allocate("f32", [tokens, 3 * width]),
    attended: device.allocateActivation(format, tokens, width),
    wide: device.allocate("f32", [tokens, (gated ? 2 : 1) * feedForwardSize]),
    activated: device.allocateActivation(format, tokens, feedForwardSize),
    pooled: device.allocate("f32", [sequences, hiddenSize]),
    head: head === null ? null : allocateHead(device, head, { sequences, hiddenSize }),
  };
}

function allocateHead(
  device: Device,
  { norm }: ScoreHeadSpec,
  { sequences, hiddenSize }: { readonly sequences: number; readonly hiddenSize: number },
): ScoreHeadBuffers {
  return {
    input: device.allocateActivation("f32", sequences, hiddenSize),
    dense: device.allocate("f32", [sequences, hiddenSize]),
    activated: norm ? device.allocate("f32", [sequences, hiddenSize]) : null,
    scores: device.allocate("f32", [sequences, 1]),
  };
}
