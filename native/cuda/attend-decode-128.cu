// Decode attention for head dims of up to 128 (attend-decode.h).
//
// The last macro argument is the number of resident blocks per SM, the most that the registers
// allow.
#include "attend-decode.h"

PERIGEE_ATTEND_DECODE(attend_decode_128_f16, F16, 128, 1, 3)
PERIGEE_ATTEND_DECODE(attend_decode_128_bf16, Bf16, 128, 1, 3)
PERIGEE_ATTEND_DECODE(attend_decode_128_i8, Q8, 128, 1, 3)
PERIGEE_ATTEND_DECODE(attend_decode_128_fp8, Fp8, 128, 1, 3)

PERIGEE_ATTEND_DECODE(attend_decode_128_f16_16, F16, 128, 2, 2)
PERIGEE_ATTEND_DECODE(attend_decode_128_bf16_16, Bf16, 128, 2, 2)
PERIGEE_ATTEND_DECODE(attend_decode_128_i8_16, Q8, 128, 2, 2)
PERIGEE_ATTEND_DECODE(attend_decode_128_fp8_16, Fp8, 128, 2, 2)
