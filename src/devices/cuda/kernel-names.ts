/**
 * Kernels by the file of native/cuda that has them, without its ending. Kernel `name` is the C
 * function `perigee_name`. One op, one file; a file may have several kernels.
 */
export const KERNEL_FILES = {
  activate: ["activate"],
  add: ["add"],
  convert: ["convert"],
  "copy-blocks": ["copy_blocks"],
  embed: ["embed"],
  "gather-rows": ["gather_rows"],
  "mean-pool": ["mean_pool"],
  norm: ["norm"],
  pack: ["pack_elements", "pack_rows"],
  softcap: ["softcap"],
} as const;

/** A file with kernels. */
export type KernelFile = keyof typeof KERNEL_FILES;

/** A kernel of any file. */
export type KernelName = (typeof KERNEL_FILES)[KernelFile][number];

/** All files, in the order in which they are compiled. */
export const KERNEL_FILE_NAMES = Object.keys(KERNEL_FILES) as readonly KernelFile[];
