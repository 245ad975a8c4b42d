/** Bytes that the parts of an index may take together. */
export class ByteBudget {
  readonly bytesMax: number;
  #bytes = 0;
  #reserved = 0;

  constructor(bytesMax: number) {
    this.bytesMax = bytesMax;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** False: there is no room beside what is reserved, nothing is taken. */
  take(bytes: number): boolean {
    if (this.#bytes + this.#reserved + bytes > this.bytesMax) return false;
    this.#bytes += bytes;
    return true;
  }

  /** As `take`, of what is reserved, too. */
  takeReserved(bytes: number): boolean {
    if (this.#bytes + bytes > this.bytesMax) return false;
    this.#bytes += bytes;
    return true;
  }

  /** Reserves more, or less where it is negative. */
  reserve(bytes: number): void {
    this.#reserved += bytes;
  }

  give(bytes: number): void {
    this.#bytes -= bytes;
  }
}
