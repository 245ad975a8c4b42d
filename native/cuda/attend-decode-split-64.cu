// Decode attention for few sequences, head dims of up to 64 (attend-decode-split.h).
#include "attend-decode-split.h"

PERIGEE_ATTEND_DECODE_SPLIT(attend_decode_split_64_f16, F16, 64, 1, 16)
PERIGEE_ATTEND_DECODE_SPLIT(attend_decode_split_64_bf16, Bf16, 64, 1, 16)
PERIGEE_ATTEND_DECODE_SPLIT(attend_decode_split_64_i8, Q8, 64, 1, 16)
PERIGEE_ATTEND_DECODE_SPLIT(attend_decode_split_64_fp8, Fp8, 64, 1, 16)

PERIGEE_ATTEND_DECODE_SPLIT(attend_decode_split_64_f16_16, F16, 64, 2, 8)
PERIGEE_ATTEND_DECODE_SPLIT(attend_decode_split_64_bf16_16, Bf16, 64, 2, 8)
PERIGEE_ATTEND_DECODE_SPLIT(attend_decode_split_64_i8_16, Q8, 64, 2, 8)
PERIGEE_ATTEND_DECODE_SPLIT(attend_decode_split_64_fp8_16, Fp8, 64, 2, 8)
