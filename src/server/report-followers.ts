/** Routers that ask once what a worker says of itself, and are told it each second. */
import type { ServerResponse } from "node:http";
import type { EventStreamOptions } from "./event-stream.ts";

/** Between two lines. */
const TELL_MS = 1000;
/** Routers of a fleet, and more. */
const FOLLOWERS_MAX = 256;

interface Follower {
  readonly response: ServerResponse;
  readonly leave: () => void;
  /** What was told last. */
  text: string;
}

/**
 * Lines of JSON, one a second; one that is empty says that nothing has changed since the line
 * before it. A reader that takes nothing is told when it has taken what it was told before.
 */
export class ReportFollowers {
  readonly #report: () => string;
  readonly #followers = new Set<Follower>();
  #timer: NodeJS.Timeout | null = null;

  /** `report`: JSON without line breaks. */
  constructor(report: () => string) {
    this.#report = report;
  }

  get hasRoom(): boolean {
    return this.#followers.size < FOLLOWERS_MAX;
  }

  /** Takes over the response, until its reader leaves or all end. */
  add(response: ServerResponse, headers: EventStreamOptions["headers"] = {}): void {
    const { socket } = response.req;
    if (socket.destroyed) return;
    const follower = { response, leave: () => this.#leave(follower), text: "" };
    this.#followers.add(follower);
    // Of the connection: a pipelined response has no socket of its own yet, and is told of no end.
    socket.once("close", follower.leave);
    response.once("close", follower.leave);
    for (const [name, value] of Object.entries(headers)) {
      if (value !== undefined) response.setHeader(name, value);
    }
    response.writeHead(200, {
      "content-type": "application/x-ndjson",
      "cache-control": "no-cache",
      "x-accel-buffering": "no", // nginx would collect the lines otherwise
    });
    response.socket?.setNoDelay(true);
    tell(follower, this.#report());
    this.#timer ??= setInterval(() => this.#tellAll(), TELL_MS).unref();
  }

  /** Ends all answers. */
  close(): void {
    for (const follower of this.#followers) {
      this.#leave(follower);
      follower.response.end();
    }
  }

  #tellAll(): void {
    const text = this.#report();
    for (const follower of this.#followers) tell(follower, text);
  }

  #leave(follower: Follower): void {
    this.#followers.delete(follower);
    follower.response.req.socket.off("close", follower.leave);
    if (this.#followers.size > 0 || this.#timer === null) return;
    clearInterval(this.#timer);
    this.#timer = null;
  }
}

function tell(follower: Follower, text: string): void {
  const { response } = follower;
  if (response.destroyed || response.writableLength > 0) return;
  response.write(text === follower.text ? "\n" : `${text}\n`);
  follower.text = text;
}
