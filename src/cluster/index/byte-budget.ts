/** Bytes that the parts of an index may take together. */
export class ByteBudget {
  readonly bytesMax: number;
  #bytes = 0;
  readonly #foreseen: (() => number)[] = [];

  constructor(bytesMax: number) {
    this.bytesMax = bytesMax;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /**
   * What a part will need soon is kept for it: otherwise what fills the budget first would leave
   * the others none for ever.
   */
  keepFor(foreseen: () => number): void {
    this.#foreseen.push(foreseen);
  }

  /** False: there is no room beside what others will need soon, nothing is taken. */
  take(bytes: number): boolean {
    const foreseen = this.#foreseen.reduce((sum, bytesOf) => sum + bytesOf(), 0);
    return foreseen + this.#bytes + bytes <= this.bytesMax && this.takeForeseen(bytes);
  }

  /** As `take`, of what was kept, too. */
  takeForeseen(bytes: number): boolean {
    if (this.#bytes + bytes > this.bytesMax) return false;
    this.#bytes += bytes;
    return true;
  }

  give(bytes: number): void {
    this.#bytes -= bytes;
  }
}
