/** Long answers in pieces, so that memory of the connection and progress of a reader are known. */
import { Readable } from "node:stream";
import type { FastifyInstance } from "fastify";

/** One write. A reader must take it within the write deadline: 64 KiB in 30 s is 2 KiB/s. */
const SLICE_BYTES = 2 ** 16;

/** Sends whole answers that are longer than one write piece by piece, as the reader takes them. */
export function sliceLongAnswers(app: FastifyInstance): void {
  app.addHook("onSend", async (request, reply, payload) => {
    const isText = typeof payload === "string" || Buffer.isBuffer(payload);
    // In UTF-8 no text is shorter than its count of characters.
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
