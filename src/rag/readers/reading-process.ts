/**
 * The process that reads files, one after the other: parsers of strangers' files may take long or
 * much memory, and here they can be ended. It ends with its parent, too, whatever it does then.
 */
import { createHash } from "node:crypto";
import { closeSync, constants, fstatSync, openSync, readSync } from "node:fs";
import { Worker } from "node:worker_threads";
import { EngineError, messageOf } from "#base";
import type { Attributes } from "#rag/texts";
import {
  type FromReader,
  MESSAGES_AHEAD,
  type ReadItem,
  type ReadJob,
  type ToReader,
} from "./read-messages.ts";
import type { FileContent } from "./reader.ts";
import { readerOf } from "./reader-choice.ts";
import { boundedSections, wellFormed } from "./section-list.ts";

/** Size of a message of items, in UTF-16 units of their texts, and its most items. */
const MESSAGE_LENGTH = 2 ** 17;
const MESSAGE_ITEMS = 2 ** 9;
/** How often memory and the parent are looked at. */
const LOOK_MS = 50;

/** The watching thread; its code is text so that it loads nothing. Arguments: see `watch`. */
const WATCH = `
const { workerData: { parent, bytesMax, lookMs } } = require("node:worker_threads");
setInterval(() => {
  if (process.ppid !== parent) process.kill(process.pid, "SIGKILL");
  else if (process.memoryUsage.rss() > bytesMax) process.kill(process.pid, "SIGUSR2");
}, lookMs);
`;

/** Ends this process without its parent, and by SIGUSR2 when it needs too much memory. */
function watch(bytesMax: number, parent: number): void {
  const workerData = { parent, bytesMax, lookMs: LOOK_MS };
  new Worker(WATCH, { eval: true, workerData, execArgv: [] }).unref();
}

/** Sends items in messages of bounded size, a few ahead of who takes them. */
class Outbox {
  #items: ReadItem[] = [];
  #length = 0;
  #ahead = 0;
  #onTaken: (() => void) | null = null;

  async add(item: ReadItem): Promise<void> {
    this.#items.push(item);
    this.#length += "section" in item ? item.section.text.length : 100;
    if (this.#length >= MESSAGE_LENGTH || this.#items.length >= MESSAGE_ITEMS) await this.flush();
  }

  async flush(): Promise<void> {
    if (this.#items.length === 0) return;
    while (this.#ahead >= MESSAGES_AHEAD) {
      await new Promise<void>((resolve) => {
        this.#onTaken = resolve;
      });
    }
    send({ type: "items", items: this.#items });
    this.#ahead++;
    this.#items = [];
    this.#length = 0;
  }

  taken(): void {
    this.#ahead--;
    this.#onTaken?.();
  }
}

function send(message: FromReader): void {
  process.send?.(message);
}

let outbox = new Outbox();
let answerGo: ((wanted: boolean) => void) | null = null;

async function read(job: ReadJob): Promise<void> {
  outbox = new Outbox();
  try {
    const bytes = job.bytes ?? readFile(job);
    const hash = createHash("sha256").update(bytes).digest("hex");
    const answer = new Promise<boolean>((resolve) => {
      answerGo = resolve;
    });
    send({ type: "hash", hash, bytes: bytes.length });
    if (await answer) await readDocuments(job, { id: job.id, bytes, hash });
    send({ type: "end", residentBytes: process.memoryUsage.rss() });
  } catch (error) {
    const code = error instanceof EngineError ? error.code : "INVALID_ARGUMENT";
    const message =
      error instanceof EngineError
        ? error.message
        : `Cannot read ${JSON.stringify(job.id)}: its content must be whole, ${messageOf(error)}`;
    send({ type: "failed", code, message, residentBytes: process.memoryUsage.rss() });
  }
}

async function readDocuments(job: ReadJob, file: FileContent): Promise<void> {
  const reader = await readerOf(job.name, job.mediaType, file.bytes);
  for await (const document of reader.read(file)) {
    if ("problem" in document) {
      await outbox.add({ failure: document });
      continue;
    }
    const { sections, ...head } = document;
    const attributes = { ...wholeValues(head.attributes), kind: reader.name };
    await outbox.add({ head: { ...head, attributes } });
    for (const section of boundedSections(sections)) {
      await outbox.add({ section: wellFormed(section) });
    }
  }
  await outbox.flush();
}

function wholeValues(attributes: Attributes): Attributes {
  const entries = Object.entries(attributes).map(([name, value]) => {
    return [name, typeof value === "string" ? value.toWellFormed() : value] as const;
  });
  return Object.fromEntries(entries);
}

/** The bytes of a regular file; a pipe that replaced it since is not waited for. */
function readFile({ path, id, bytesMax }: ReadJob): Uint8Array {
  const named = JSON.stringify(id);
  let descriptor: number;
  try {
    descriptor = openSync(path ?? "", constants.O_RDONLY | constants.O_NONBLOCK);
  } catch (cause) {
    throw new EngineError("IO", `Cannot read ${named}: it must open, ${messageOf(cause)}`, {
      cause,
    });
  }
  try {
    const stat = fstatSync(descriptor);
    if (!stat.isFile()) {
      throw new EngineError("IO", `Cannot read ${named}: it must be a regular file, it is none`);
    }
    return readAll(descriptor, stat.size, bytesMax, named);
  } finally {
    closeSync(descriptor);
  }
}

function readAll(descriptor: number, size: number, bytesMax: number, named: string): Uint8Array {
  const most = Math.min(size, bytesMax);
  let bytes = Buffer.alloc(Math.max(1, most + 1));
  let length = 0;
  for (;;) {
    const count = readSync(descriptor, bytes, length, bytes.length - length, null);
    length += count;
    if (length > bytesMax || size > bytesMax) {
      const message =
        `Cannot read ${named}: a file must have at most ${bytesMax} bytes (fileBytesMax), ` +
        `current value is ${Math.max(size, length)}`;
      throw new EngineError("INVALID_ARGUMENT", message);
    }
    if (count === 0) return bytes.subarray(0, length);
    // Files that grow, and those of /proc, have more than they say.
    if (length === bytes.length) bytes = Buffer.concat([bytes], 2 * bytes.length);
  }
}

process.on("message", (message: ToReader) => {
  if (message.type === "read") void read(message.job);
  else if (message.type === "go") answerGo?.(message.wanted);
  else outbox.taken();
});
process.on("disconnect", () => process.exit(0));
const [, , memoryBytes, parentId] = process.argv;
watch(Number(memoryBytes), Number(parentId));
send({ type: "ready" });
