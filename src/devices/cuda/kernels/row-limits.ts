/** Threads of a block for ops on rows: 16 columns each of a row of 4096. */
export const ROW_THREADS = 256;

/** Most bf16 rows that these kernels multiply; more rows go to cuBLASLt. */
export const STREAM_ROWS_MAX = 16;
/** Columns of a row that a block of so many threads stores: `kRowPart` there. */
export const ROW_PART = 1024;
