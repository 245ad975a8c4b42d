/**
 * Kernels by the file of native/cuda that has them, without its ending. Kernel `name` is the C
 * function `perigee_name`. One op, one file; a file may have several kernels.
 */
export const KERNEL_FILES = {
  "accept-trees": ["accept_trees"],
  activate: ["activate", "activate_bf16"],
  add: ["add"],
  "adjust-logits": ["mask_logits", "adjust_entries"],
  "attend-prefill": [
    "attend_prefill_bf16_64",
    "attend_prefill_bf16_96",
    "attend_prefill_bf16_128",
    "attend_prefill_bf16_256",
  ],
  "attend-prefill-f16": [
    "attend_prefill_f16_64",
    "attend_prefill_f16_96",
    "attend_prefill_f16_128",
    "attend_prefill_f16_256",
  ],
  "attend-prefill-scaled": [
    "attend_prefill_scaled_64",
    "attend_prefill_scaled_96",
    "attend_prefill_scaled_128",
    "attend_prefill_scaled_256",
  ],
  "attend-prefill-wgmma": [
    "attend_prefill_wgmma_bf16_64",
    "attend_prefill_wgmma_bf16_128",
    "attend_prefill_wgmma_f16_64",
    "attend_prefill_wgmma_f16_128",
  ],
  "attend-decode-128": [
    "attend_decode_128_f16",
    "attend_decode_128_bf16",
    "attend_decode_128_i8",
    "attend_decode_128_fp8",
    "attend_decode_128_f16_16",
    "attend_decode_128_bf16_16",
    "attend_decode_128_i8_16",
    "attend_decode_128_fp8_16",
  ],
  "attend-decode-256": [
    "attend_decode_256_f16",
    "attend_decode_256_bf16",
    "attend_decode_256_i8",
    "attend_decode_256_fp8",
  ],
  "attend-decode-64": [
    "attend_decode_64_f16",
    "attend_decode_64_bf16",
    "attend_decode_64_i8",
    "attend_decode_64_fp8",
    "attend_decode_64_f16_16",
    "attend_decode_64_bf16_16",
    "attend_decode_64_i8_16",
    "attend_decode_64_fp8_16",
  ],
  "attend-decode-split-64": [
    "attend_decode_split_64_f16",
    "attend_decode_split_64_bf16",
    "attend_decode_split_64_i8",
    "attend_decode_split_64_fp8",
    "attend_decode_split_64_f16_16",
    "attend_decode_split_64_bf16_16",
    "attend_decode_split_64_i8_16",
    "attend_decode_split_64_fp8_16",
  ],
  "attend-decode-split-128": [
    "attend_decode_split_128_f16",
    "attend_decode_split_128_bf16",
    "attend_decode_split_128_i8",
    "attend_decode_split_128_fp8",
    "attend_decode_split_128_f16_16",
    "attend_decode_split_128_bf16_16",
    "attend_decode_split_128_i8_16",
    "attend_decode_split_128_fp8_16",
  ],
  "attend-decode-split-256": [
    "attend_decode_split_256_f16",
    "attend_decode_split_256_bf16",
    "attend_decode_split_256_i8",
    "attend_decode_split_256_fp8",
  ],
  convert: ["convert"],
  "best-tokens": ["best_tokens"],
  "copy-blocks": ["copy_blocks"],
  embed: ["embed"],
  "encoder-attention": [
    "encoder_attention",
    "encoder_attention_32",
    "encoder_attention_64",
    "encoder_attention_128",
  ],
  "gather-rows": ["gather_rows"],
  "join-rows": ["join_rows"],
  linear: ["linear_f32", "linear_bf16", "linear_i8"],
  "linear-activate": ["linear_activate_8", "linear_activate_16"],
  "linear-f32": ["linear_f32_many"],
  "linear-few": ["linear_few_8", "linear_few_16"],
  "linear-i8": ["linear_i8_many_32", "linear_i8_many_48"],
  "linear-stream": ["linear_stream_8", "linear_stream_16"],
  logprobs: ["logprobs"],
  "mean-pool": ["mean_pool"],
  "mixture-of-experts": ["choose_experts", "group_experts", "multiply_experts", "sum_experts"],
  "move-layers": ["move_layers"],
  "move-tokens": ["move_tokens"],
  "multiply-experts": ["multiply_experts_bf16"],
  norm: ["norm"],
  pack: ["pack_elements", "pack_random", "pack_rows"],
  "paged-attention": ["attend_tiles", "attend_segments", "merge_segments"],
  "race-candidates": ["race_candidates"],
  "rope-kv-write": ["rope_kv_write"],
  "rope-kv-write-pairs": ["rope_kv_write_few", "rope_kv_write_many"],
  "rotate-heads": ["rotate_heads"],
  sample: ["sample"],
  "select-beams": ["select_beams"],
  softcap: ["softcap"],
  "spread-rows": ["spread_rows"],
  "take-tokens": ["take_tokens"],
  "trace-beams": ["trace_beams"],
} as const;

/** A file with kernels. */
export type KernelFile = keyof typeof KERNEL_FILES;

/** A kernel of any file. */
export type KernelName = (typeof KERNEL_FILES)[KernelFile][number];

/** All files, in the order in which they are compiled. */
export const KERNEL_FILE_NAMES = Object.keys(KERNEL_FILES) as readonly KernelFile[];
