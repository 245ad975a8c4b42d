/**
 * devices/cuda/ops: the ops of the device contract, one file each, and their shared parts.
 *
 *   context.ts           the context of an op beside its input
 *   linear-stream.ts, linear-i8.ts   launches of the GEMM kernels of native/cuda
 *   attention-fields.ts, attention-out.ts, head-dim.ts   parts that attention ops share
 *   vocabulary.ts        the split of rows of logits over the GPU
 *   pack.ts              weights packed for the kernels
 *   move-blocks.ts       copies of blocks
 *
 * @module
 */
export { acceptTrees } from "./accept-trees.ts";
export { activate } from "./activate.ts";
export { add } from "./add.ts";
export { adjustLogits } from "./adjust-logits.ts";
export { decodesFrom, SHORT_CONTEXT } from "./attend-decode.ts";
export type { CudaContext } from "./context.ts";
export { convert } from "./convert.ts";
export { embed } from "./embed.ts";
export { encoderAttention } from "./encoder-attention.ts";
export { gatherRows } from "./gather-rows.ts";
export { joinRows } from "./join-rows.ts";
export { linear } from "./linear.ts";
export { linearActivate } from "./linear-activate.ts";
export { logprobs } from "./logprobs.ts";
export { meanPool } from "./mean-pool.ts";
export { mixtureOfExperts } from "./mixture-of-experts.ts";
export { copyBlocks } from "./move-blocks.ts";
export { moveTokens } from "./move-tokens.ts";
export { norm } from "./norm.ts";
export { loadTensor, packMatrix } from "./pack.ts";
export { pagedAttention } from "./paged-attention.ts";
export { raceCandidates } from "./race-candidates.ts";
export { ropeKvWrite } from "./rope-kv-write.ts";
export { rotateHeads } from "./rotate-heads.ts";
export { sample } from "./sample.ts";
export { selectBeams } from "./select-beams.ts";
export { softcap } from "./softcap.ts";
export { spreadRows } from "./spread-rows.ts";
export { takeTokens } from "./take-tokens.ts";
export { traceBeams } from "./trace-beams.ts";
