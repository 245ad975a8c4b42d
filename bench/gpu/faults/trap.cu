// A kernel that breaks its context: what any bug of a kernel, or of the hardware, does.
extern "C" __global__ void perigee_trap() { __trap(); }
