// Decode attention of heads of up to 256 dimensions (attend-decode.h).
//
// The last number: blocks that a multiprocessor runs at once, as many as registers are enough for.
#include "attend-decode.h"

PERIGEE_ATTEND_DECODE(attend_decode_256_f16, F16, 256, 1, 2)
PERIGEE_ATTEND_DECODE(attend_decode_256_bf16, Bf16, 256, 1, 2)
PERIGEE_ATTEND_DECODE(attend_decode_256_i8, Q8, 256, 1, 2)
PERIGEE_ATTEND_DECODE(attend_decode_256_fp8, Fp8, 256, 1, 2)
