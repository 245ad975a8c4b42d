/** 0 done, 1 failed, 2 wrong use, 130 ended by Ctrl-C, as in shells (128 + SIGINT). */
export const EXIT_FAILED = 1;
export const EXIT_WRONG_USE = 2;
export const EXIT_INTERRUPTED = 130;
