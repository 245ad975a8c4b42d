import { appendFile } from "node:fs/promises";
import { type Clock, LastingTrouble, messageOf, systemClock } from "#base";

/** Lines that wait for the disk; more are dropped, and counted. */
const PENDING_LENGTH_MAX = 4 * 2 ** 20;
/** On a full disk some writes succeed between those that fail. */
const QUIET_MS = 30_000;

/**
 * Decisions as JSON lines in a file of the operator's, who renames or cuts it as he likes: it is
 * opened anew for each write. No request waits for the disk.
 */
export class DecisionLog {
  readonly #file: string;
  readonly #warn: (message: string) => void;
  #pending: string[] = [];
  #pendingLength = 0;
  #dropped = 0;
  #writing: Promise<void> | null = null;
  readonly #trouble: LastingTrouble;

  constructor(file: string, warn: (message: string) => void, clock: Clock = systemClock) {
    this.#file = file;
    this.#warn = warn;
    this.#trouble = new LastingTrouble(clock, QUIET_MS);
    // What is wrong with the file is told at the start, not with the first decision.
    this.#writing = this.#write();
  }

  /** Lines that were not written: the disk failed, or was too slow. */
  get dropped(): number {
    return this.#dropped;
  }

  add(line: string): void {
    if (this.#pendingLength + line.length > PENDING_LENGTH_MAX) {
      this.#dropped++;
      return;
    }
    this.#pending.push(line);
    this.#pendingLength += line.length;
    this.#writing ??= this.#write();
  }

  /** Resolves when all is written, or cannot be. */
  async close(): Promise<void> {
    await this.#writing;
  }

  async #write(): Promise<void> {
    // What else is decided in this turn goes with it.
    await new Promise((resolve) => setImmediate(resolve));
    do {
      const lines = this.#pending;
      this.#pending = [];
      this.#pendingLength = 0;
      try {
        await appendFile(this.#file, lines.map((line) => `${line}\n`).join(""));
        if (this.#trouble.succeeded()) {
          this.#warn(`decisions are logged again: ${this.#file} (${this.#dropped} were not)`);
        }
      } catch (error) {
        this.#dropped += lines.length;
        this.#complain(error);
      }
    } while (this.#pending.length > 0);
    this.#writing = null;
  }

  #complain(error: unknown): void {
    if (!this.#trouble.failed()) return;
    const how = `decisions are not logged: ${this.#file} cannot be written`;
    this.#warn(`${how}: ${messageOf(error)}; requests go on`);
  }
}
