/** Reads lines of an untrusted file or pipe. */

/** A line, or the reason why it cannot be used. Numbers begin at 1. */
export type InputLine =
  | { readonly number: number; readonly text: string }
  | { readonly number: number; readonly problem: string };

/** The longest body that a server accepts by default for a context of 2^20 tokens. */
export const LINE_BYTES_MAX: number = 16 * 2 ** 20;

const NEWLINE = 0x0a;

/**
 * Lines of UTF-8 without their line ends (`\n` or `\r\n`). A line that is too long or not UTF-8 is
 * reported in its place and uses at most `LINE_BYTES_MAX` of memory; reading continues with the
 * next line.
 */
export async function* readLines(
  chunks: AsyncIterable<Uint8Array | string>,
): AsyncGenerator<InputLine> {
  const line = new LineBytes();
  for await (const chunk of chunks) {
    const bytes = Buffer.from(chunk);
    let start = 0;
    for (let end = bytes.indexOf(NEWLINE); end >= 0; end = bytes.indexOf(NEWLINE, start)) {
      line.add(bytes.subarray(start, end));
      yield line.take();
      start = end + 1;
    }
    line.add(bytes.subarray(start));
  }
  if (!line.isEmpty) yield line.take();
}

/** The bytes of the current line so far. */
class LineBytes {
  readonly #decoder = new TextDecoder("utf-8", { fatal: true });
  #parts: Uint8Array[] = [];
  #sizeBytes = 0;
  #number = 0;

  get isEmpty(): boolean {
    return this.#sizeBytes === 0;
  }

  add(part: Uint8Array): void {
    this.#sizeBytes += part.length;
    if (this.#sizeBytes > LINE_BYTES_MAX) this.#parts = [];
    else this.#parts.push(part);
  }

  take(): InputLine {
    const parts = this.#parts;
    const sizeBytes = this.#sizeBytes;
    this.#parts = [];
    this.#sizeBytes = 0;
    const number = ++this.#number;
    if (sizeBytes > LINE_BYTES_MAX) {
      const problem = `wanted a line of at most ${LINE_BYTES_MAX} bytes, this one has ${sizeBytes}`;
      return { number, problem };
    }
    try {
      return { number, text: this.#decoder.decode(Buffer.concat(parts)).replace(/\r$/, "") };
    } catch {
      return { number, problem: "wanted UTF-8, this line has other bytes" };
    }
  }
}
