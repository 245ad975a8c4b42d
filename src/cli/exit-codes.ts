/** 0 done, 1 failed, 2 wrong use. */
export const EXIT_FAILED = 1;
export const EXIT_WRONG_USE = 2;
