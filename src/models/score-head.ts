import type { Device, DeviceTensor } from "#devices";
import type { ScoreHeadBuffers } from "./encoder-buffers.ts";
import type { ScoreHeadSpec } from "./encoder-spec.ts";
import type { ScoreHeadWeights } from "./encoder-weights.ts";

export interface ScoreHeadParts {
  readonly device: Device;
  readonly spec: ScoreHeadSpec;
  readonly weights: ScoreHeadWeights;
  readonly buffers: ScoreHeadBuffers;
}

/** The last layers of a cross-encoder: pooled rows to one number each. */
export class ScoreHead {
  readonly #parts: ScoreHeadParts;

  constructor(parts: ScoreHeadParts) {
    this.#parts = parts;
  }

  get pooling(): ScoreHeadSpec["pooling"] {
    return this.#parts.spec.pooling;
  }

  /** [S, 1] f32 of `pooled` [S, E] f32. */
  scores(pooled: DeviceTensor, count: number): DeviceTensor {
    const { device, spec, weights, buffers } = this.#parts;
    const { input, dense, activated, scores } = buffers;
    device.convert({ count, out: input, x: pooled });
    device.linear({ count, out: dense, x: input, ...weights.dense });
    if (weights.norm === null || activated === null) {
      device.activate({ count, kind: spec.activation, out: input, x: dense, gated: false });
    } else {
      // The norm reads f32 rows: act(dense) is added to zeros.
      device.write(activated, new Float32Array(activated.shape.reduce((a, b) => a * b, 1)));
      device.add({ count, x: activated, delta: dense, kind: spec.activation });
      device.norm({ count, out: input, x: activated, ...weights.norm });
    }
    device.linear({ count, out: scores, x: input, ...weights.output });
    return device.rows(scores, 0, count);
  }
}
