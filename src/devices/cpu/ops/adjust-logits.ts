import { elementCount } from "#tensor";
import type { AdjustLogitsInput } from "../../ops.ts";
import type { CpuContext } from "../context.ts";
import { tensorOf, vectorOf } from "../handles.ts";
import { Params } from "../params.ts";

const params = new Params(14);

/** Calls the kernel with `AdjustLogitsParams` (native/cpu/adjust-logits.cpp). */
export function adjustLogits({ kernels, pool }: CpuContext, input: AdjustLogitsInput): void {
  const { count, allowed, allowedRows } = input;
  const tokens = elementCount(input.logits.shape.slice(1));
  const masked = allowed !== undefined && allowedRows !== undefined;
  kernels.adjust_logits(
    params.fill(
      pool,
      tensorOf(input.out, "f32", count, tokens).address,
      tensorOf(input.logits, "f32", count, tokens).address,
      vectorOf(input.entryStarts, "i32", count + 1),
      vectorOf(input.entryTokens, "i32", 0),
      vectorOf(input.entryBias, "f32", 0),
      vectorOf(input.entryCounts, "i32", 0),
      vectorOf(input.repetitionPenalty, "f32", count),
      vectorOf(input.frequencyPenalty, "f32", count),
      vectorOf(input.presencePenalty, "f32", count),
      masked ? tensorOf(allowed, "u32", count, Math.ceil(tokens / 32)).address : null,
      masked ? vectorOf(allowedRows, "i32", count) : null,
      count,
      tokens,
    ),
  );
}
