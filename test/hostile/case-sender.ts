/** Sends cases to a server, and brings back what it said. */
import { Agent, request as httpRequest } from "node:http";
import { connect, type Socket } from "node:net";
import type { BodyCase, WireCase } from "./hostile-case.ts";

/**
 * Time in which a server must have answered. No measure of speed: on a loaded machine everything is
 * slow; what takes longer than this hangs.
 */
export const ANSWER_MS_MAX = 300_000;
/** How long a connection may be silent before its sender says that nothing follows. */
const pauseMs = 20;

/** What came back. */
export interface Answer {
  /** 0: none. */
  readonly status: number;
  readonly headers: Readonly<Record<string, unknown>>;
  readonly text: string;
  /** Why there is no whole answer; null where there is one. */
  readonly failure: string | null;
}

/** Bodies sent a second time: few, or the server closes connections that it should answer on. */
export let sentAgain = 0;

const agent = new Agent({ keepAlive: true, maxSockets: 64 });

/** The body of a case as one of its ways writes it. */
export function bodyOf(one: BodyCase, way: "whole" | "stream"): string {
  return way === "whole" ? one.body : `${one.body.slice(0, -1)},"stream":true}`;
}

/**
 * Sends a body as right HTTP. Never rejects. A server may close a connection that is kept just when
 * it is taken up again: then clients send again, on a new one.
 */
export async function sendBody(url: string, path: string, body: string): Promise<Answer> {
  const first = await sendOnce(url, path, body);
  if (first !== "closed before") return first;
  sentAgain++;
  return sendFinally(url, path, body);
}

async function sendFinally(url: string, path: string, body: string): Promise<Answer> {
  const answer = await sendOnce(url, path, body, false);
  if (answer === "closed before") throw new Error("A new connection is not one that was kept");
  return answer;
}

function sendOnce(
  url: string,
  path: string,
  body: string,
  mayReuse = true,
): Promise<Answer | "closed before"> {
  return new Promise((resolve) => {
    let status = 0;
    let headers: Answer["headers"] = {};
    let text = "";
    const end = (failure: string | null) => {
      clearTimeout(timer);
      resolve({ status, headers, text, failure });
    };
    const request = httpRequest(`${url}${path}`, {
      method: "POST",
      agent: mayReuse ? agent : false,
      headers: { "content-type": "application/json", "content-length": Buffer.byteLength(body) },
    });
    const timer = setTimeout(() => {
      end(`no answer within ${ANSWER_MS_MAX} ms`);
      request.destroy();
    }, ANSWER_MS_MAX);
    request.on("response", (response) => {
      status = response.statusCode ?? 0;
      headers = response.headers;
      response.setEncoding("utf8").on("data", (chunk: string) => {
        text += chunk;
      });
      response.on("end", () => end(null));
      response.on("error", (error) => end(`the answer broke off: ${error.message}`));
    });
    // A refusal may close the connection while the body is still being sent.
    request.on("error", (error) => {
      if (status === 0 && request.reusedSocket && "code" in error && error.code === "ECONNRESET") {
        clearTimeout(timer);
        resolve("closed before");
      } else {
        end(status === 0 ? `no answer: ${error.message}` : null);
      }
    });
    request.end(body);
  });
}

/** Time after which a client leaves, or goes on with something else. */
const leaveMs = 150;

const NO_ANSWER: Answer = { status: 0, headers: {}, text: "", failure: null };

/** Connections whose clients read nothing. */
const stalled = new Set<Socket>();

/** Closes the connections of clients that read nothing. */
export function endStalled(): void {
  for (const socket of stalled) socket.destroy();
  stalled.clear();
}

/** Sends bytes, and does what the case says then. Never rejects. */
export async function sendBytes(url: string, one: WireCase): Promise<Answer> {
  if (one.end === "reads") return readAll(url, one);
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname);
  socket.on("error", () => {}); // the server may have closed it
  socket.pause();
  await writeAll(socket, one.pieces, false);
  await new Promise((resolve) => setTimeout(resolve, leaveMs));
  if (one.end === "leaves") socket.destroy();
  else stalled.add(socket);
  return NO_ANSWER;
}

function readAll(url: string, one: WireCase): Promise<Answer> {
  const { hostname, port } = new URL(url);
  return new Promise((resolve) => {
    const chunks: Buffer[] = [];
    const socket = connect(Number(port), hostname);
    const end = (failure: string | null) => {
      clearTimeout(timer);
      socket.destroy();
      const text = Buffer.concat(chunks).toString("latin1");
      const status = Number(/^HTTP\/1\.[01] (\d{3})/.exec(text)?.[1] ?? 0);
      resolve({ status, headers: {}, text, failure });
    };
    const timer = setTimeout(() => end(`open after ${ANSWER_MS_MAX} ms`), ANSWER_MS_MAX);
    socket.on("data", (chunk) => chunks.push(chunk));
    socket.on("close", () => end(null));
    socket.on("error", () => {}); // a reset is an answer, too; "close" follows
    void writeAll(socket, one.pieces, true);
  });
}

async function writeAll(socket: Socket, pieces: readonly Buffer[], isAll: boolean): Promise<void> {
  for (const piece of pieces) {
    if (socket.destroyed) return;
    await new Promise<void>((resolve) => {
      socket.once("close", resolve).write(piece, () => {
        socket.off("close", resolve);
        resolve();
      });
    });
    if (pieces.length > 1) await new Promise((resolve) => setTimeout(resolve, pauseMs));
  }
  if (isAll && !socket.destroyed) socket.end();
}
