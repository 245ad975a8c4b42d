/**
 * Cases that are small and between them meet the kernels of an op: what --small runs, by op. An op
 * that is not here has two of its first ones.
 */
export const smallCases = {
  attendDecode: [
    "9/3 of 64, decodes",
    "8/2 of 128, i8",
    "bf16, drafts",
    "8/2 of 128, decodes, as if long",
    "fp8, sinks, as if long",
  ],
  attendPrefillWgmma: [
    "8/2 heads of 128, blocks of 16, a key beyond it",
    "8/2 heads of 64, blocks of 32, half a tile",
    "8/2 heads of 128, blocks of 16, ragged, among decodes",
    "a steep softmax, bf16",
  ],
  attendPrefill: [
    "9/3 of 64, blocks of 4, edges of query tiles and KV tiles",
    "8/2 of 128, blocks of 4, i8",
    "bf16, tree",
  ],
  pagedAttention: [
    "3/1 heads of 20, f32, mixed",
    "9/3 heads of 64, bf16, decodes",
    "9/3 heads of 64, f32, a prompt",
    "rounded to i8",
  ],
  sample: ["5 tokens, many alike", "4099 tokens", "4099 tokens, draw 4 alone"],
  logprobs: ["5 tokens, the 5 likeliest", "4099 tokens, the 20 likeliest"],
  adjustLogits: ["100 tokens, masked", "4099 tokens, masked, in place"],
  copyBlocks: ["bf16, blocks of 16", "i8, blocks of 1"],
  linear: [
    "f32 [9, 33, 130], bias, accumulated",
    "f32 [40, 33, 130]",
    "i8 [9, 33, 130], bias, accumulated",
    "i8 [40, 33, 130]",
    "i8 [49, 130, 400], bias, accumulated",
    "bf16 [1, 4096, 1000], bias, accumulated",
    "bf16 [7, 33, 130], bias, accumulated",
    "bf16 [16, 129, 14336]",
    "bf16 [40, 64, 257]",
  ],
  linearActivate: [
    "f32 [8, 130, 300] relu, gated",
    "i8 [33, 40, 66] relu, gated",
    "bf16 [3, 5, 130] gelu-tanh, gated",
    "bf16 [16, 129, 72] silu, gated",
    "bf16 [4, 3000, 1024] gelu, gated",
    // One bucket of rows: under a sanitizer each way that is timed takes a second.
    "bf16 [17, 1000, 320] gelu, gated",
  ],
  mixtureOfExperts: [
    "f32, 5 tokens, 4 experts",
    "i8, 23 tokens, 9 experts",
    "bf16, 5 tokens, 4 experts",
    "bf16, 65 tokens, 1 experts",
  ],
  ropeKvWrite: [
    "9/3 heads of 64, 64 turn",
    "3/1 heads of 20, 4 turn",
    "whole heads, 40 tokens",
    "whole heads, 300 tokens",
    "whole heads of 80, norms",
    "whole heads, fp8",
  ],
  norm: ["rms [37, 300] to bf16", "layer [5, 15] to i8", "rms [7, 4096] to f32", "in place"],
  activate: ["silu to f32, gated", "gelu to bf16, gated", "relu to i8"],
  embed: ["bf16", "i8, from a transposed file", "a plain tensor"],
  pack: ["random bf16", "i8 from a file", "random, transposed"],
};
