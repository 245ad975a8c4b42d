import type { CudaActivation, CudaMatrix } from "./handles.ts";

/** Tensor maps of matrices or activations, by the box that copies take: each is made once. */
export class MapsByRows {
  readonly #known = new WeakMap<CudaMatrix | CudaActivation, Map<number, readonly bigint[]>>();

  /** The map of `of` for the box that `key` stands for. */
  of(
    of: CudaMatrix | CudaActivation,
    key: number,
    make: () => readonly bigint[],
  ): readonly bigint[] {
    const maps = this.#known.get(of) ?? new Map<number, readonly bigint[]>();
    this.#known.set(of, maps);
    const found = maps.get(key) ?? make();
    maps.set(key, found);
    return found;
  }
}
