import { kvPoolOf } from "#devices/cuda/memory";
import {
  acceptTrees,
  activate,
  add,
  adjustLogits,
  type CudaContext,
  convert,
  embed,
  encoderAttention,
  gatherRows,
  joinRows,
  linear,
  linearActivate,
  logprobs,
  meanPool,
  mixtureOfExperts,
  moveTokens,
  norm,
  pagedAttention,
  raceCandidates,
  ropeKvWrite,
  rotateHeads,
  sample,
  selectBeams,
  softcap,
  spreadRows,
  takeTokens,
  traceBeams,
} from "#devices/cuda/ops";
import type { KvPool } from "../device-data.ts";
import { type OpsClass, opsClass } from "../op-table.ts";

/** The ops, one file each: ops/<op>.ts checks shapes, native/cuda/<op>.cu computes. */
export const CudaOps: OpsClass<CudaContext> = opsClass({
  takeTokens,
  acceptTrees,
  spreadRows,
  embed,
  norm,
  linear,
  linearActivate,
  activate,
  convert,
  add,
  rotateHeads,
  ropeKvWrite: afterMoves(ropeKvWrite),
  pagedAttention: afterMoves(pagedAttention),
  moveTokens: afterAllMoves(moveTokens),
  encoderAttention,
  mixtureOfExperts,
  gatherRows,
  joinRows,
  meanPool,
  softcap,
  adjustLogits,
  sample,
  logprobs,
  raceCandidates,
  selectBeams,
  traceBeams,
});

/** The place of the blocks that an op reads or writes. */
interface LayerOfCache {
  readonly cache: KvPool;
  readonly layer: number;
}

/** The op behind the moves of blocks in its layer. */
function afterMoves<Input extends LayerOfCache>(
  run: (context: CudaContext, input: Input) => void,
): (context: CudaContext, input: Input) => void {
  return (context, input) => {
    context.moves.settleLayer(kvPoolOf(input.cache), input.layer);
    run(context, input);
  };
}

/** The op behind the moves of blocks in all layers. */
function afterAllMoves<Input extends Pick<LayerOfCache, "cache">>(
  run: (context: CudaContext, input: Input) => void,
): (context: CudaContext, input: Input) => void {
  return (context, input) => {
    context.moves.settle(kvPoolOf(input.cache));
    run(context, input);
  };
}
