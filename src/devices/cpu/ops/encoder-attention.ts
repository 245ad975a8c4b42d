import { reachOf } from "../../attention-reach.ts";
import type { EncoderAttentionInput } from "../../ops.ts";
import type { CpuContext } from "../context.ts";
import { activationOf, tensorOf, vectorOf } from "../handles.ts";
import { Params } from "../params.ts";

const params = new Params(10);

/** Calls the kernel with `EncoderAttentionParams` (native/cpu/encoder-attention.cpp). */
export function encoderAttention(
  { kernels, pool }: CpuContext,
  input: EncoderAttentionInput,
): void {
  const { count, heads, headDim, sequences } = input;
  const columns = heads * headDim;
  const out = activationOf(input.out, count, columns);
  kernels.encoder_attention(
    params.fill(
      pool,
      out.address,
      out.formatCode,
      tensorOf(input.qkv, "f32", count, 3 * columns).address,
      heads,
      headDim,
      vectorOf(input.starts, "i32", sequences + 1),
      sequences,
      input.scale,
      reachOf(input),
    ),
  );
}
