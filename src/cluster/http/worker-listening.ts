import type { IncomingHttpHeaders } from "node:http";
import type { Dispatcher } from "undici";

/** Receives an answer as it comes. After `onEnd` nothing follows. */
export interface AnswerListener {
  /** False: the answer is not wanted. */
  onHead(status: number): boolean;
  onPiece(bytes: Buffer): void;
  /** Null: the answer is complete. */
  onEnd(failure: Error | null): void;
}

/** An answer in work. */
export interface Listening {
  /** Ends it in each of its states, and tells the listener nothing any more. */
  stop(): void;
}

/** One request whose answer comes as calls: without a stream, a promise and a timer of its own. */
export class ListeningCall implements Listening, Dispatcher.DispatchHandler {
  #listener: AnswerListener | null;
  #controller: Dispatcher.DispatchController | null = null;

  constructor(listener: AnswerListener) {
    this.#listener = listener;
  }

  stop(): void {
    this.#listener = null;
    this.#controller?.abort(STOPPED);
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    // It waited for its connection until now.
    if (this.#listener === null) controller.abort(STOPPED);
  }

  onResponseStart(
    _controller: Dispatcher.DispatchController,
    status: number,
    _headers: IncomingHttpHeaders,
  ): void {
    if (status < 200 || this.#listener === null) return;
    if (this.#listener.onHead(status)) return;
    this.#end(STOPPED);
    this.stop();
  }

  onResponseData(_controller: Dispatcher.DispatchController, bytes: Buffer): void {
    this.#listener?.onPiece(bytes);
  }

  onResponseEnd(): void {
    this.#end(null);
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    this.#end(error);
  }

  #end(failure: Error | null): void {
    const listener = this.#listener;
    this.#listener = null;
    listener?.onEnd(failure);
  }
}

/** Made once: an error per request would cost a stack trace each. */
const STOPPED = new Error("The answer is not wanted any more");
