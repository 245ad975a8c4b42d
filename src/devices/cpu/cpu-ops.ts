import { type OpsClass, opsClass } from "../op-table.ts";
import type { CpuContext } from "./context.ts";
import { acceptTrees } from "./ops/accept-trees.ts";
import { activate } from "./ops/activate.ts";
import { add } from "./ops/add.ts";
import { adjustLogits } from "./ops/adjust-logits.ts";
import { convert } from "./ops/convert.ts";
import { embed } from "./ops/embed.ts";
import { encoderAttention } from "./ops/encoder-attention.ts";
import { gatherRows } from "./ops/gather-rows.ts";
import { joinRows } from "./ops/join-rows.ts";
import { linear } from "./ops/linear.ts";
import { linearActivate } from "./ops/linear-activate.ts";
import { logprobs } from "./ops/logprobs.ts";
import { meanPool } from "./ops/mean-pool.ts";
import { mixtureOfExperts } from "./ops/mixture-of-experts.ts";
import { moveTokens } from "./ops/move-tokens.ts";
import { norm } from "./ops/norm.ts";
import { pagedAttention } from "./ops/paged-attention.ts";
import { raceCandidates } from "./ops/race-candidates.ts";
import { ropeKvWrite } from "./ops/rope-kv-write.ts";
import { rotateHeads } from "./ops/rotate-heads.ts";
import { sample } from "./ops/sample.ts";
import { selectBeams } from "./ops/select-beams.ts";
import { softcap } from "./ops/softcap.ts";
import { spreadRows } from "./ops/spread-rows.ts";
import { takeTokens } from "./ops/take-tokens.ts";
import { traceBeams } from "./ops/trace-beams.ts";

/** The ops, one file each: ops/<op>.ts checks shapes, native/cpu/<op>.cpp computes. */
export const CpuOps: OpsClass<CpuContext> = opsClass({
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
  ropeKvWrite,
  pagedAttention,
  moveTokens,
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
