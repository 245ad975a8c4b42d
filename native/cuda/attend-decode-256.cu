// Decode attention for head dims of up to 256 (attend-decode.h).
//
// The last macro argument is the number of resident blocks per SM, the most that the registers
// allow.
#include "attend-decode.h"

PERIGEE_ATTEND_DECODE(attend_decode_256_f16, F16, 256, 1, 2)
PERIGEE_ATTEND_DECODE(attend_decode_256_bf16, Bf16, 256, 1, 2)
PERIGEE_ATTEND_DECODE(attend_decode_256_i8, Q8, 256, 1, 2)
PERIGEE_ATTEND_DECODE(attend_decode_256_fp8, Fp8, 256, 1, 2)
