/** Longest line of a stream, in UTF-16 units: a server may send anything. */
const LINE_MAX = 16 * 2 ** 20;

/** Data of server-sent events, in order; ends with `[DONE]` or the stream. */
export async function* serverEvents(body: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let buffer = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      buffer += done ? decoder.decode() : decoder.decode(value, { stream: true });
      const lines = buffer.split("\n");
      buffer = lines.pop() ?? "";
      if (buffer.length > LINE_MAX) throw new Error("The server's event is too long");
      for (const line of lines) {
        if (!line.startsWith("data:")) continue;
        const data = line.slice("data:".length).trim();
        if (data === "[DONE]") return;
        yield data;
      }
      if (done) return;
    }
  } finally {
    // Closes the connection where the reader left early: the request is cancelled.
    await reader.cancel().catch(() => undefined);
  }
}
