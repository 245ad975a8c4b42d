/**
 * devices/cuda/weights: weights from files to the GPU.
 *
 *   file-uploads.ts      uploads of parts of files through pinned memory
 *   read-pool.ts         threads that read files: read-thread.ts, read-cells.ts
 *   read-activation.ts   packed rows as f32 numbers
 *
 * @module
 */
export { FileUploads } from "./file-uploads.ts";
export { readActivation } from "./read-activation.ts";
