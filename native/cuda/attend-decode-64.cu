// Decode attention for head dims of up to 64 (attend-decode.h).
//
// The last macro argument is the number of resident blocks per SM, the most that the registers
// allow.
#include "attend-decode.h"

PERIGEE_ATTEND_DECODE(attend_decode_64_f16, F16, 64, 1, 4)
PERIGEE_ATTEND_DECODE(attend_decode_64_bf16, Bf16, 64, 1, 4)
PERIGEE_ATTEND_DECODE(attend_decode_64_i8, Q8, 64, 1, 4)
PERIGEE_ATTEND_DECODE(attend_decode_64_fp8, Fp8, 64, 1, 4)

PERIGEE_ATTEND_DECODE(attend_decode_64_f16_16, F16, 64, 2, 2)
PERIGEE_ATTEND_DECODE(attend_decode_64_bf16_16, Bf16, 64, 2, 2)
PERIGEE_ATTEND_DECODE(attend_decode_64_i8_16, Q8, 64, 2, 2)
PERIGEE_ATTEND_DECODE(attend_decode_64_fp8_16, Fp8, 64, 2, 2)
