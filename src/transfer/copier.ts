/** Copies pieces between memory of this process. */
export interface Copier {
  /** Both sides have equally many bytes. `done`: nothing is touched any more. */
  copy(from: readonly Uint8Array[], into: readonly Uint8Array[], done: () => void): void;
}

/** On the calling thread, one piece per turn of its loop. */
export const plainCopier: Copier = {
  copy(from, into, done) {
    setImmediate(() => {
      copyNow(from, into);
      done();
    });
  },
};

/** Gathers `from` and scatters it over `into`. */
export function copyNow(from: readonly Uint8Array[], into: readonly Uint8Array[]): void {
  let target = 0;
  let offset = 0;
  for (const source of from) {
    let taken = 0;
    while (taken < source.byteLength) {
      const range = into[target];
      if (range === undefined) return;
      const count = Math.min(source.byteLength - taken, range.byteLength - offset);
      range.set(source.subarray(taken, taken + count), offset);
      taken += count;
      offset += count;
      if (offset === range.byteLength) {
        target++;
        offset = 0;
      }
    }
  }
}
