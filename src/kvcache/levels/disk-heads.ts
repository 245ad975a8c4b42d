import type { ContentIndex, NodeId } from "#kvcache/contents";

/** A node, and the serial of its contents, which changes when they are replaced. */
interface Wanted {
  readonly node: NodeId;
  readonly serial: number;
}

/** Where so many wait, most of them find no room; the newest are used most. */
const WANTED_MAX = 1024;

/**
 * Contents that must be on disk because blocks there continue them: after a restart no block is
 * found without its whole prefix, and the most used prefixes, such as a system prompt, are never
 * evicted from the device.
 */
export class DiskHeads {
  readonly #index: ContentIndex;
  readonly #isWritten: (node: NodeId) => boolean;
  #wanted: Wanted[] = [];

  /** `isWritten`: whether contents are on disk, or on their way there. */
  constructor(index: ContentIndex, isWritten: (node: NodeId) => boolean) {
    this.#index = index;
    this.#isWritten = isWritten;
  }

  /** Records contents that a block on disk continues. */
  want(node: NodeId): void {
    this.#wanted.push({ node, serial: this.#index.serialOf(node) });
    if (this.#wanted.length > WANTED_MAX) this.#wanted.splice(0, WANTED_MAX / 2);
  }

  /** Forgets all wanted contents: the disk refuses writes. */
  clear(): void {
    this.#wanted = [];
  }

  /**
   * Writes at most `most` wanted contents, the first of a prefix first. Where `write` returns false
   * there is no room now: the rest waits for the next call.
   */
  writeSome(most: number, write: (node: NodeId) => boolean): void {
    let left = most;
    while (left > 0) {
      const wanted = this.#wanted.pop();
      if (wanted === undefined) return;
      for (const { node, serial } of this.#missing(wanted)) {
        if (left > 0 && this.#index.serialOf(node) === serial && write(node)) left--;
        else {
          this.#wanted.push(wanted);
          return;
        }
      }
    }
  }

  /** Wanted contents and all before them that are not on disk, the first of the prefix first. */
  #missing({ node, serial }: Wanted): Wanted[] {
    const missing: Wanted[] = [];
    if (this.#index.serialOf(node) !== serial) return missing;
    for (let head: NodeId | null = node; head !== null; head = this.#index.tree.parentOf(head)) {
      if (this.#isWritten(head)) break;
      missing.push({ node: head, serial: this.#index.serialOf(head) });
    }
    return missing.reverse();
  }
}
