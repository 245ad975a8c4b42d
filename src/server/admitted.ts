/** Requests in work: counted, and aborted when their clients disconnect. */
import type { FastifyReply, FastifyRequest } from "fastify";
import { EngineError } from "#base";
import type { Admission } from "./admission.ts";

/** Created once: a new error per request would cost a stack trace each. */
const OVER = new EngineError("ABORTED", "Cannot continue: the answer was already sent");

/**
 * Runs the work of one request. Its signal is aborted as soon as the client disconnects, or by
 * `abortAll` of the admission; a failure after that is the signal's reason.
 */
export async function admitted<Result>(
  admission: Admission,
  { request, reply }: { readonly request: FastifyRequest; readonly reply: FastifyReply },
  work: (signal: AbortSignal) => Promise<Result>,
): Promise<Result> {
  const controller = admission.enter();
  const { signal } = controller;
  const onClose = () => {
    if (!reply.raw.writableFinished) controller.abort(hungUp());
  };
  // Listen to the connection, too: a pipelined response gets no `close` event of its own.
  const { socket } = request.raw;
  socket.setMaxListeners(0).once("close", onClose);
  reply.raw.once("close", onClose);
  // If the client disconnected while its body was read, no `close` event will follow.
  if (reply.raw.destroyed || socket.destroyed) onClose();
  try {
    signal.throwIfAborted();
    return await work(signal);
  } catch (error) {
    throw signal.aborted ? signal.reason : error;
  } finally {
    socket.off("close", onClose);
    reply.raw.off("close", onClose);
    controller.abort(OVER); // stops the request's remaining work, whose result is unused
    admission.leave(controller);
  }
}

function hungUp(): EngineError {
  return new EngineError("ABORTED", "Cannot complete request: the client disconnected");
}
