/** Long answers in slices, to bound a connection's memory and to observe its reader's progress. */
import { Readable } from "node:stream";
import type { FastifyInstance } from "fastify";

/** One write. A reader must take it within the write deadline: 64 KiB in 30 s is 2 KiB/s. */
const SLICE_BYTES = 2 ** 16;

/** Sends answers that are longer than one write in slices, at the reader's speed. */
export function sliceLongAnswers(app: FastifyInstance): void {
  app.addHook("onSend", async (request, reply, payload) => {
    const isText = typeof payload === "string" || Buffer.isBuffer(payload);
    // The UTF-8 length of a text is never below its number of characters.
    if (!isText || payload.length <= SLICE_BYTES || request.method === "HEAD") return payload;
    const bytes = typeof payload === "string" ? Buffer.from(payload) : payload;
    reply.header("content-length", bytes.length);
    return Readable.from(slicesOf(bytes), { objectMode: false, highWaterMark: 1 });
  });
}

function* slicesOf(bytes: Buffer): Generator<Buffer> {
  for (let start = 0; start < bytes.length; start += SLICE_BYTES) {
    yield bytes.subarray(start, start + SLICE_BYTES);
  }
}
