/**
 * The page at / from a recording: a browser has the same to draw, and the server that is measured
 * has nothing to do for it. What a browser costs its neighbours is then on both sides.
 */
import { createServer } from "node:http";

const STREAM = "/dashboard/events";
/** Bodies are passed on decoded. */
const LEFT_OUT = ["content-encoding", "content-length", "transfer-encoding", "connection"];

/**
 * A server that passes requests on to `target` and keeps the answers, until `replay()`: from then
 * on it answers by itself, streams at the pace at which they came.
 */
export async function startReplay(target) {
  const answers = new Map();
  const pieces = [];
  let recording = true;

  async function passOn({ url: path, headers: asked }, response) {
    // At / those who accept HTML get the page.
    const answered = await fetch(`${target}${path}`, {
      headers: { accept: asked.accept ?? "*/*" },
    });
    const { status, headers, body } = answered;
    const kept = Object.fromEntries([...headers].filter(([name]) => !LEFT_OUT.includes(name)));
    response.writeHead(status, kept);
    const isStream = path.startsWith(STREAM);
    const begunMs = performance.now();
    const parts = [];
    if (isStream) pieces.length = 0;
    if (isStream) answers.set(STREAM, { status, headers: kept, body: null });
    for await (const part of body ?? []) {
      if (response.destroyed) break;
      response.write(part);
      if (isStream) pieces.push({ atMs: performance.now() - begunMs, part: Buffer.from(part) });
      else parts.push(part);
    }
    // An answer that was broken off is not one to be given again.
    if (!isStream && !response.destroyed) {
      answers.set(path, { status, headers: kept, body: Buffer.concat(parts) });
    }
    response.end();
  }

  /** Again from the beginning at its end: a run may take longer than the recorded one. */
  function playStream(response, place = 0, lastMs = 0) {
    const { atMs, part } = pieces[place];
    setTimeout(() => {
      if (response.destroyed) return;
      response.write(part);
      if (place + 1 < pieces.length) playStream(response, place + 1, atMs);
      else playStream(response);
    }, atMs - lastMs);
  }

  const server = createServer((request, response) => {
    const path = request.url ?? "/";
    if (recording) {
      passOn(request, response).catch(() => response.destroy());
      return;
    }
    const isStream = path.startsWith(STREAM);
    const answer = answers.get(isStream ? STREAM : path);
    response.writeHead(answer?.status ?? 404, answer?.headers ?? {});
    if (isStream) playStream(response);
    else response.end(answer?.body);
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${server.address().port}`,
    replay() {
      if (pieces.length === 0) throw new Error("No stream was recorded");
      recording = false;
      return { pieces: pieces.length, seconds: pieces.at(-1).atMs / 1000 };
    },
    close() {
      server.closeAllConnections();
      server.close();
    },
  };
}
