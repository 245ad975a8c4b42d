// Decode attention for few sequences, head dims of up to 256 (attend-decode-strand.h).
#include "attend-decode-strand.h"

PERIGEE_ATTEND_STRAND(attend_strand_256_f16, F16, 256, 1, 8)
PERIGEE_ATTEND_STRAND(attend_strand_256_bf16, Bf16, 256, 1, 8)
PERIGEE_ATTEND_STRAND(attend_strand_256_i8, Q8, 256, 1, 8)
PERIGEE_ATTEND_STRAND(attend_strand_256_fp8, Fp8, 256, 1, 8)
