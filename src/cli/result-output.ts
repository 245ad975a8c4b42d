import { closeSync, openSync, writeSync } from "node:fs";
import { fileProblem } from "./file-problem.ts";
import { shownText } from "./terminal-text.ts";

/** Where results go: a file, or standard output. */
export class ResultOutput implements Disposable {
  readonly #file: string | undefined;
  readonly #descriptor: number | null = null;

  /** Without a file: standard output. Throws IO when it cannot be written. */
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

/** A pipe or a full disk may take less than was handed over. */
function writeAll(descriptor: number, text: string): void {
  let rest = Buffer.from(text);
  while (rest.length > 0) rest = rest.subarray(writeSync(descriptor, rest));
}

/** Passes texts on in the order of their places, each as soon as all before it have come. */
export class InOrder {
  readonly #write: (text: string) => void;
  readonly #waiting = new Map<number, string>();
  #next = 0;

  constructor(write: (text: string) => void) {
    this.#write = write;
  }

  /** Places are 0, 1, 2 …; each comes once. */
  add(place: number, text: string): void {
    this.#waiting.set(place, text);
    for (let ready = this.#take(); ready !== undefined; ready = this.#take()) this.#write(ready);
  }

  /** The end: places before these will not come. */
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
