/** Clients that do nothing wrong, as the run sees them: `ordinary-client.mjs` reads the streams. */
import { type ChildProcess, fork } from "node:child_process";
import { sized } from "../support/full.ts";
import { killAtExit } from "../support/kill-at-exit.ts";

/**
 * No measure of speed: a server that writes no token for so long hangs, on however slow a
 * machine.
 */
const STALL_MS = 30_000;
/**
 * Between two streams of a client, at most. Eight without a rest keep two cores at work, which other
 * tests want; where pauses are looked at there is none.
 */
const REST_MS = sized(6000, 0);

type ClientMessage =
  | { readonly type: "begun" }
  | { readonly type: "problem"; readonly message: string }
  | { readonly type: "silent"; readonly ms: number }
  | { readonly type: "closed"; readonly id: number; readonly worstMs: number }
  | { readonly type: "stopped"; readonly read: number };

/** A span of time of which the longest pause is wanted. */
export type GapWindow = number;

export class OrdinaryStreams {
  readonly #child: ChildProcess;
  readonly #problems: string[] = [];
  readonly #closing = new Map<GapWindow, (worstMs: number) => void>();
  readonly #begun: Promise<void>;
  readonly #ended: Promise<void>;
  #silentMs = 0;
  #read = 0;
  #windows = 0;

  private constructor(url: string) {
    this.#child = fork("test/hostile/ordinary-client.mjs", [url, String(REST_MS)], {
      execArgv: [],
    });
    killAtExit(this.#child);
    const exited = new Promise<void>((resolve) => this.#child.once("exit", () => resolve()));
    this.#begun = new Promise((resolve, reject) => {
      this.#child.on("message", (message: ClientMessage) => {
        if (message.type === "begun") resolve();
        else this.#hear(message);
      });
      void exited.then(() => reject(new Error("The ordinary streams ended before they began")));
    });
    this.#ended = exited.then(() => {
      for (const resolve of this.#closing.values()) resolve(0);
      this.#closing.clear();
    });
  }

  /** Notes what each stream is answered with while no other request runs, then reads on. */
  static async start(url: string): Promise<OrdinaryStreams> {
    const streams = new OrdinaryStreams(url);
    await streams.#begun;
    return streams;
  }

  /** What was wrong with streams, in the order in which it happened. */
  get problems(): readonly string[] {
    return this.#problems;
  }

  /** Streams read to their end; known when all are stopped. */
  get read(): number {
    return this.#read;
  }

  /** No stream has been written a token for very long. */
  get stalled(): boolean {
    return this.#silentMs > STALL_MS;
  }

  openWindow(): GapWindow {
    const id = this.#windows++;
    this.#child.send({ type: "open", id }, () => {});
    return id;
  }

  /** The longest time between two tokens of a stream since the window was opened, in ms. */
  async closeWindow(id: GapWindow): Promise<number> {
    if (!this.#child.connected) return 0;
    return await new Promise((resolve) => {
      this.#closing.set(id, resolve);
      // The process may end at this moment: what it measured is lost then.
      this.#child.send({ type: "close", id }, (error) => {
        if (error !== null) resolve(0);
      });
    });
  }

  /** Waits until each has ended. */
  async stop(): Promise<void> {
    // The process may end at this moment.
    if (this.#child.connected) this.#child.send({ type: "stop" }, () => {});
    await this.#ended;
  }

  /** Ends them now. */
  kill(): void {
    this.#child.kill("SIGKILL");
  }

  #hear(message: ClientMessage): void {
    switch (message.type) {
      case "problem":
        this.#problems.push(message.message);
        break;
      case "silent":
        this.#silentMs = message.ms;
        break;
      case "closed":
        this.#closing.get(message.id)?.(message.worstMs);
        this.#closing.delete(message.id);
        break;
      case "stopped":
        this.#read = message.read;
        break;
    }
  }
}
