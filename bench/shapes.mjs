/** Shapes of the benchmarks' models. Weights are random: speed does not depend on their values. */
export const SHAPES = {
  /** For a quick look that everything runs. */
  tiny: {
    architecture: "llama",
    hidden: 64,
    layers: 2,
    heads: 4,
    kvHeads: 2,
    headDim: 16,
    feedForward: 192,
    vocabulary: 512,
    theta: 10_000,
    epsilon: 1e-5,
    qkvBias: false,
  },
  /** SmolLM-135M with a vocabulary of 8192. */
  smol135: {
    architecture: "llama",
    hidden: 576,
    layers: 30,
    heads: 9,
    kvHeads: 3,
    headDim: 64,
    feedForward: 1536,
    vocabulary: 8192,
    theta: 100_000,
    epsilon: 1e-5,
    qkvBias: false,
  },
  /** Qwen2.5-0.5B. */
  qwen05: {
    architecture: "qwen2",
    hidden: 896,
    layers: 24,
    heads: 14,
    kvHeads: 2,
    headDim: 64,
    feedForward: 4864,
    vocabulary: 151_936,
    theta: 1_000_000,
    epsilon: 1e-6,
    qkvBias: true,
  },
};
