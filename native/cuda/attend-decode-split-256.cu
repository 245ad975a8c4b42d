// Decode attention for few sequences, head dims of up to 256 (attend-decode-split.h).
#include "attend-decode-split.h"

PERIGEE_ATTEND_DECODE_SPLIT(attend_decode_split_256_f16, F16, 256, 1, 8)
PERIGEE_ATTEND_DECODE_SPLIT(attend_decode_split_256_bf16, Bf16, 256, 1, 8)
PERIGEE_ATTEND_DECODE_SPLIT(attend_decode_split_256_i8, Q8, 256, 1, 8)
PERIGEE_ATTEND_DECODE_SPLIT(attend_decode_split_256_fp8, Fp8, 256, 1, 8)
