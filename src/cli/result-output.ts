import { closeSync, openSync, writeSync } from "node:fs";
import { fileProblem } from "./file-problem.ts";
import { shownText } from "./terminal-text.ts";

/** The destination of results: a file, or standard output. */
export class ResultOutput implements Disposable {
  readonly #file: string | undefined;
  readonly #descriptor: number | null = null;

  /** Without a file: standard output. Throws IO if the file cannot be written. */
  constructor(file: string | undefined) {
    this.#file = file;
    if (file !== undefined) this.#descriptor = this.#using(() => openSync(file, "w"));
  }

  write(text: string): void {
    const descriptor = this.#descriptor;
    if (descriptor === null) process.stdout.write(shownText(text));
    else this.#using(() => writeAll(descriptor, text));
  }

  [Symbol.dispose](): void {
    if (this.#descriptor !== null) closeSync(this.#descriptor);
  }

  #using<T>(action: () => T): T {
    try {
      return action();
    } catch (cause) {
      const file = this.#file ?? "standard output";
      throw fileProblem({ action: "write", file, wanted: "a file that can be written", cause });
    }
  }
}

/** Writes all bytes: a pipe or a full disk may accept only a part per call. */
function writeAll(descriptor: number, text: string): void {
  let rest = Buffer.from(text);
  while (rest.length > 0) rest = rest.subarray(writeSync(descriptor, rest));
}

/** Writes texts in the order of their places, each as soon as all earlier ones are written. */
export class InOrder {
  readonly #write: (text: string) => void;
  readonly #waiting = new Map<number, string>();
  #next = 0;

  constructor(write: (text: string) => void) {
    this.#write = write;
  }

  /** Places are 0, 1, 2 …; each is added once. */
  add(place: number, text: string): void {
    this.#waiting.set(place, text);
    for (let ready = this.#take(); ready !== undefined; ready = this.#take()) this.#write(ready);
  }

  /** Ends the output: writes the waiting texts, although earlier places are missing. */
  flush(): void {
    for (const [, text] of [...this.#waiting].sort(([a], [b]) => a - b)) this.#write(text);
    this.#waiting.clear();
  }

  #take(): string | undefined {
    const text = this.#waiting.get(this.#next);
    if (text !== undefined) this.#waiting.delete(this.#next++);
    return text;
  }
}
