/** Threads of a block where rows are the work: a row of 4096 columns is 16 each. */
export const ROW_THREADS = 256;

/** Most rows of bf16 that are multiplied by these kernels; from there on cuBLASLt does it. */
export const STREAM_ROWS_MAX = 16;
