/**
 * devices/cuda/products: GEMMs by cuBLASLt.
 *
 *   cublaslt.ts          the library
 *   matmul.ts            one GEMM and its algorithms
 *   products.ts          all GEMMs of a device; product-choices.ts: the fastest algorithms, on disk
 *
 * @module
 */
export { CublasLt } from "./cublaslt.ts";
export { Matmul } from "./matmul.ts";
export { Products } from "./products.ts";
