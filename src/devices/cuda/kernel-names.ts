/**
 * Kernels by the file of native/cuda that has them, without its ending. Kernel `name` is the C
 * function `perigee_name`. One op, one file; a file may have several kernels.
 */
export const KERNEL_FILES = {
  activate: ["activate"],
  add: ["add"],
  "adjust-logits": ["mask_logits", "adjust_entries"],
  convert: ["convert"],
  "copy-blocks": ["copy_blocks"],
  embed: ["embed"],
  "encoder-attention": ["encoder_attention"],
  "gather-rows": ["gather_rows"],
  linear: ["linear_f32", "linear_bf16", "linear_i8"],
  "linear-activate": ["linear_activate_8", "linear_activate_16", "linear_activate_32"],
  "linear-few": ["linear_few_8", "linear_few_16"],
  "linear-stream": ["linear_stream_8", "linear_stream_16", "linear_stream_32"],
  logprobs: ["logprobs"],
  "mean-pool": ["mean_pool"],
  "mixture-of-experts": ["choose_experts", "group_experts", "multiply_experts", "sum_experts"],
  norm: ["norm"],
  pack: ["pack_elements", "pack_random", "pack_rows"],
  "paged-attention": ["attend_tiles", "attend_segments", "merge_segments"],
  "rope-kv-write": ["rope_kv_write"],
  sample: ["sample"],
  softcap: ["softcap"],
  "spread-rows": ["spread_rows"],
  "take-tokens": ["take_tokens"],
} as const;

/** A file with kernels. */
export type KernelFile = keyof typeof KERNEL_FILES;

/** A kernel of any file. */
export type KernelName = (typeof KERNEL_FILES)[KernelFile][number];

/** All files, in the order in which they are compiled. */
export const KERNEL_FILE_NAMES = Object.keys(KERNEL_FILES) as readonly KernelFile[];
