// Decode attention for few sequences, head dims of up to 128 (attend-decode-split.h).
#include "attend-decode-split.h"

PERIGEE_ATTEND_DECODE_SPLIT(attend_decode_split_128_f16, F16, 128, 1, 12)
PERIGEE_ATTEND_DECODE_SPLIT(attend_decode_split_128_bf16, Bf16, 128, 1, 12)
PERIGEE_ATTEND_DECODE_SPLIT(attend_decode_split_128_i8, Q8, 128, 1, 12)
PERIGEE_ATTEND_DECODE_SPLIT(attend_decode_split_128_fp8, Fp8, 128, 1, 12)

PERIGEE_ATTEND_DECODE_SPLIT(attend_decode_split_128_f16_16, F16, 128, 2, 8)
PERIGEE_ATTEND_DECODE_SPLIT(attend_decode_split_128_bf16_16, Bf16, 128, 2, 8)
PERIGEE_ATTEND_DECODE_SPLIT(attend_decode_split_128_i8_16, Q8, 128, 2, 8)
PERIGEE_ATTEND_DECODE_SPLIT(attend_decode_split_128_fp8_16, Fp8, 128, 2, 8)
