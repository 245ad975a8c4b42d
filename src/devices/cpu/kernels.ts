/**
 * Names of the kernels. Kernel `name` is the C function `perigee_name(params)`, in the C++ file of
 * the op's name. A kernel takes one pointer to its params struct (params.ts) and returns nothing.
 */
export const KERNEL_NAMES = [
  "accept_trees",
  "activate",
  "add",
  "adjust_logits",
  "convert",
  "embed",
  "encoder_attention",
  "gather_rows",
  "join_rows",
  "linear",
  "logprobs",
  "mean_pool",
  "mixture_of_experts",
  "move_tokens",
  "norm",
  "paged_attention",
  "race_candidates",
  "rope_kv_write",
  "rotate_heads",
  "sample",
  "select_beams",
  "softcap",
  "spread_rows",
  "take_tokens",
  "trace_beams",
] as const;

export type KernelName = (typeof KERNEL_NAMES)[number];

/** Runs the kernel and returns when it is done. */
export type Kernel = (params: ArrayBuffer) => void;

export type Kernels = Readonly<Record<KernelName, Kernel>>;
