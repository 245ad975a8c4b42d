import type { ContentIndex, NodeId } from "#kvcache/contents";

/** Contents, and the serial that tells whether they are still those. */
interface Wanted {
  readonly node: NodeId;
  readonly serial: number;
}

/** Where so many wait there is no room for most of them; the newest are used most. */
const WANTED_MAX = 1024;

/**
 * Contents that must be on disk because others there continue them: after a restart nothing is
 * found without all that comes before it, and what is used most, such as a system prompt, never
 * leaves the device by itself.
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

  /** Takes note of contents that something on disk continues. */
  want(node: NodeId): void {
    this.#wanted.push({ node, serial: this.#index.serialOf(node) });
    if (this.#wanted.length > WANTED_MAX) this.#wanted.splice(0, WANTED_MAX / 2);
  }

  /** Nothing is wanted any more: the disk refuses what it is given. */
  clear(): void {
    this.#wanted = [];
  }

  /**
   * Has at most `most` wanted contents written, the first of a history first. Where `write` says
   * false there is no room now: the rest waits for the next call.
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

  /** Wanted contents and all before them that are not on disk, the first of the history first. */
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
