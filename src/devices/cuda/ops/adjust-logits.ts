import { KernelParams, ROW_THREADS } from "#devices/cuda/kernels";
import { tensorOf, vectorOf } from "#devices/cuda/memory";
import { elementCount } from "#tensor";
import type { AdjustLogitsInput } from "../../ops.ts";
import type { CudaContext } from "./context.ts";

const maskParams = new KernelParams(["pointer", "pointer", "pointer", "pointer", "i32"]);
const entryParams = new KernelParams([
  ...(["pointer", "pointer", "pointer", "pointer", "pointer"] as const),
  ...(["pointer", "pointer", "pointer", "i32"] as const),
]);

/**
 * Calls two kernels of native/cuda/adjust-logits.cu: with `MaskLogitsParams`, where there is a mask
 * or the logits stay unchanged, then with `AdjustEntriesParams`.
 */
export function adjustLogits({ kernels, launcher }: CudaContext, input: AdjustLogitsInput): void {
  const { count, allowed, allowedRows } = input;
  const tokens = elementCount(input.logits.shape.slice(1));
  const logits = tensorOf(input.logits, "f32", count, tokens).address;
  const out = tensorOf(input.out, "f32", count, tokens).address;
  const masked = allowed !== undefined && allowedRows !== undefined;
  if (masked || out !== logits) {
    maskParams.fill(
      out,
      logits,
      masked ? tensorOf(allowed, "u32", count, Math.ceil(tokens / 32)).address : null,
      masked ? vectorOf(allowedRows, "i32", count) : null,
      tokens,
    );
    const grid = [Math.ceil(tokens / ROW_THREADS), count] as const;
    launcher.launch(kernels.mask_logits, { grid, threads: ROW_THREADS }, maskParams);
  }
  entryParams.fill(
    out,
    vectorOf(input.entryStarts, "i32", count + 1),
    vectorOf(input.entryTokens, "i32", 0),
    vectorOf(input.entryBias, "f32", 0),
    vectorOf(input.entryCounts, "i32", 0),
    vectorOf(input.repetitionPenalty, "f32", count),
    vectorOf(input.frequencyPenalty, "f32", count),
    vectorOf(input.presencePenalty, "f32", count),
    tokens,
  );
  launcher.launch(kernels.adjust_entries, { grid: [count], threads: ROW_THREADS }, entryParams);
}
