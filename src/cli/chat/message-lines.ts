/** Lines of a terminal joined to messages: `"""` begins and ends one of many lines, `\` goes on. */

/** Longest message, in UTF-16 units: the engine refuses longer prompts anyway. */
const LENGTH_MAX = 16 * 2 ** 20;
const FENCE = '"""';

/** Joins lines. */
export class MessageLines {
  #lines: string[] = [];
  #length = 0;
  #isFenced = false;

  /** Whether the next line belongs to a message that has begun. */
  get isOpen(): boolean {
    return this.#isFenced || this.#lines.length > 0;
  }

  /** A message that is complete with this line; null: it goes on. */
  add(line: string): string | null {
    if (this.#isFenced) return this.#addFenced(line);
    if (this.#lines.length === 0 && line.trimStart().startsWith(FENCE)) {
      this.#isFenced = true;
      return this.#addFenced(line.trimStart().slice(FENCE.length));
    }
    if (line.endsWith("\\") && this.#hasRoom(line)) {
      this.#keep(line.slice(0, -1));
      return null;
    }
    this.#keep(line);
    return this.take();
  }

  /** What there is so far, at the end of input. */
  take(): string {
    const text = this.#lines.join("\n");
    this.#lines = [];
    this.#length = 0;
    this.#isFenced = false;
    return text;
  }

  #addFenced(line: string): string | null {
    const end = line.trimEnd();
    if (!end.endsWith(FENCE) && this.#hasRoom(line)) {
      this.#keep(line);
      return null;
    }
    // The lines of the fence have no text of their own where nothing stands beside it.
    const last = end.endsWith(FENCE) ? end.slice(0, -FENCE.length) : line;
    if (last !== "") this.#keep(last);
    if (this.#lines[0] === "") this.#lines.shift();
    return this.take();
  }

  #keep(line: string): void {
    this.#lines.push(line);
    this.#length += line.length + 1;
  }

  #hasRoom(line: string): boolean {
    return this.#length + line.length < LENGTH_MAX;
  }
}
