import { createReadStream } from "node:fs";
import { EngineError, messageOf } from "#base";

/** The longest line: a prompt of some eight million token ids. */
export const LINE_CHARS_MAX: number = 2 ** 26;

/** The bytes of a file. Throws IO when it cannot be read. */
export async function* fileBytes(path: string): AsyncGenerator<Uint8Array> {
  try {
    for await (const chunk of createReadStream(path)) yield chunk as Buffer; // no encoding is set
  } catch (cause) {
    throw new EngineError(
      "IO",
      `Cannot read trace: wanted a readable file, current value is ${path} (${messageOf(cause)})`,
      { cause, param: "trace" },
    );
  }
}

/**
 * Lines of UTF-8 text, without a byte order mark at its beginning. Throws INVALID_ARGUMENT for
 * bytes of gzip and for a line of more than `LINE_CHARS_MAX` characters; `path` names the text.
 */
export async function* traceLines(
  bytes: AsyncIterable<Uint8Array>,
  path: string,
): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let parts: string[] = [];
  let chars = 0;
  let line = 1;
  for await (const chunk of bytes) {
    if (line === 1 && parts.length === 0) refuseGzip(chunk, path);
    const pieces = decoder.decode(chunk, { stream: true }).split("\n");
    for (const [at, piece] of pieces.entries()) {
      if (at > 0) {
        yield parts.join("");
        parts = [];
        chars = 0;
        line++;
      }
      parts.push(piece);
      chars += piece.length;
      if (chars > LINE_CHARS_MAX) {
        const wanted = `wanted at most ${LINE_CHARS_MAX} characters, current value is more`;
        throw refusal(path, `line ${line}: ${wanted}; end each request with a line break`);
      }
    }
  }
  yield parts.join("");
}

function refuseGzip([first, second]: Uint8Array, path: string): void {
  if (first !== 0x1f || second !== 0x8b) return;
  throw refusal(
    path,
    "wanted lines of JSON, current value is compressed by gzip; unpack it, or give what zcat " +
      "prints to standard input, with - as the trace",
  );
}

function refusal(path: string, what: string): EngineError {
  const message = `Cannot read trace ${path}: ${what}`;
  return new EngineError("INVALID_ARGUMENT", message, { param: "trace" });
}
