/** Bytes that the parts of an index may take together. */
export class ByteBudget {
  readonly bytesMax: number;
  #bytes = 0;

  constructor(bytesMax: number) {
    this.bytesMax = bytesMax;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** False: there is no room, nothing is taken. */
  take(bytes: number): boolean {
    if (this.#bytes + bytes > this.bytesMax) return false;
    this.#bytes += bytes;
    return true;
  }

  give(bytes: number): void {
    this.#bytes -= bytes;
  }
}
