/**
 * Connections to workers whose bytes are handed on as they are read. A stream of Node's allocates
 * 64 KiB for each read, queues what came and tells of it in a later turn: for a token of 200 bytes
 * that is a third of what its relay costs.
 */
import type { Socket } from "node:net";
import { buildConnector } from "undici";
import { type ConnectorOptions, safeConnector } from "#cluster/http";
import { ChunkFraming } from "./chunk-framing.ts";
import { descriptorOf } from "./direct-writes.ts";

/** Of all connections: what is read is used up before the next read. */
const buffer = Buffer.allocUnsafeSlow(2 ** 16);

/**
 * Connects as undici does. What a handler gets of an answer is a view that holds until it returns;
 * https is decrypted by streams, whose bytes are their own.
 */
export function directConnector(given: ConnectorOptions): buildConnector.connector {
  const secure = safeConnector(given);
  return (options, callback) => {
    if (options.protocol === "https:") {
      secure(options, callback);
      return;
    }
    const reads = new DirectReads();
    const onread = { buffer, callback: (count: number) => reads.take(count) };
    buildConnector({ timeout: given.connectTimeoutMs, onread })(options, (...answer) => {
      if (answer[0] === null) reads.from(answer[1]);
      callback(...answer);
    });
  };
}

/** Reads an answer in chunks. */
export interface BodyReader {
  /** Receives the content of chunks; the bytes hold until it returns. */
  onContent(content: Buffer): void;
  /** Nothing of the answer is open. True: its connection is lent, and read by others. */
  onBetween(descriptor: number): boolean;
}

/** An answer in chunks whose content undici is not asked for. */
export interface DirectBody {
  /** Reads no more until `resume`. */
  pause(): void;
  resume(): void;
  /** Ends a loan: `pending` is what comes next, from the beginning of a chunk. */
  giveBack(pending: Buffer): void;
}

/**
 * To be asked while undici tells of an answer's head, of an answer in chunks. Its content comes
 * to the reader as soon as undici is between two chunks; before that, and once anything comes that
 * is no plain chunk, undici tells it. So undici reads the end, and knows what follows. Null: the
 * connection has no direct reads.
 */
export function directBody(reader: BodyReader): DirectBody | null {
  return telling?.bodyTo(reader) ?? null;
}

/** The connection whose bytes undici is told of in this moment. */
let telling: DirectReads | null = null;

/** Tells nothing, but shows whether the reader takes anything now. */
const NOTHING = Buffer.alloc(0);

/** A socket without a queue: undici is told of bytes in the turn in which they are read. */
class DirectReads {
  #socket: Socket | null = null;
  /** What came and was not taken: the reader has paused. */
  #bytes: Buffer | null = null;
  /** The worker's end has come and waits for the reader. */
  #hasEnded = false;
  #isTelling = false;
  #body: Body | null = null;
  #readOn: (size?: number) => unknown = () => null;

  from(socket: Socket): void {
    this.#socket = socket;
    const readOn = socket.read.bind(socket);
    this.#readOn = readOn;
    const pushOn = socket.push.bind(socket);
    const end = () => {
      socket.push(null);
      readOn(0);
    };
    socket.read = (size?: number) => {
      if (this.#bytes !== null) {
        if (size !== 0) return this.#taken();
        setImmediate(() => this.#tell());
        return null;
      }
      if (this.#hasEnded) {
        this.#hasEnded = false;
        setImmediate(end);
        return null;
      }
      // There is no more than this read brought; what is lent is read by others.
      return this.#isTelling || this.#body?.isLent === true ? null : readOn(size);
    };
    socket.unshift = (bytes: Buffer) => {
      this.#bytes = bytes.length === 0 ? null : Buffer.from(bytes);
    };
    // undici 7.30 fails an assertion, which ends the process, where an end comes during a pause.
    socket.push = (bytes: unknown) => {
      if (bytes === null && !this.take(0)) {
        this.#hasEnded = true;
        return false;
      }
      return pushOn(bytes);
    };
  }

  /** The answer whose head is told now goes to `reader`, as soon as that can be. */
  bodyTo(reader: BodyReader): DirectBody {
    const body: Body = {
      ...{ reader, framing: new ChunkFraming(), hasHead: false },
      ...{ isDirect: false, isPaused: false, isLent: false },
    };
    this.#body = body;
    return {
      pause: () => {
        body.isPaused = true;
      },
      resume: () => {
        if (!body.isPaused) return;
        body.isPaused = false;
        if (this.#body === body && body.isDirect && !body.isLent) this.#readOn(0);
      },
      giveBack: (pending) => this.#giveBack(body, pending),
    };
  }

  /** False: no more is read until the rest is taken. */
  take(count: number): boolean {
    const body = this.#body;
    if (count > 0 && body?.isDirect === true) {
      return this.#takeContent(body, buffer.subarray(0, count));
    }
    return this.#hand(count === 0 ? NOTHING : buffer.subarray(0, count));
  }

  #hand(bytes: Buffer): boolean {
    this.#bytes = bytes;
    this.#tell();
    if (this.#bytes === null) {
      this.#follow(bytes);
      return true;
    }
    this.#bytes = Buffer.from(this.#bytes);
    // The rest is read in another turn: where undici is then is not known.
    this.#body = null;
    return false;
  }

  /** Between two chunks undici's place is known without it. */
  #follow(bytes: Buffer): void {
    const body = this.#body;
    if (body === null) return;
    const start = body.hasHead ? 0 : endOfHead(bytes);
    body.hasHead = true;
    // What is moved here was read already.
    const isFollowed = start >= 0 && body.framing.read(bytes.subarray(start)).rest === null;
    if (!isFollowed) this.#body = null;
    else body.isDirect = body.framing.isBetween;
  }

  #takeContent(body: Body, bytes: Buffer): boolean {
    const { content, rest } = body.framing.read(bytes);
    // Copied, since the reader may cause other reads.
    const held = rest === null ? null : Buffer.from(rest);
    if (content.length > 0) body.reader.onContent(content);
    if (this.#socket?.destroyed === true) return false;
    if (held === null) return !body.isPaused && !this.#isNowLent(body);
    this.#body = null;
    return this.#hand(held);
  }

  #isNowLent(body: Body): boolean {
    const descriptor = this.#socket === null ? -1 : descriptorOf(this.#socket);
    if (descriptor < 0 || this.#body !== body || !body.framing.isBetween) return false;
    body.isLent = body.reader.onBetween(descriptor);
    return body.isLent;
  }

  #giveBack(body: Body, pending: Buffer): void {
    if (!body.isLent) return;
    body.isLent = false;
    if (this.#body !== body || this.#socket?.destroyed !== false) return;
    const goesOn = pending.length === 0 || this.#takeContent(body, pending);
    if (goesOn && !body.isPaused) this.#readOn(0);
  }

  #tell(): void {
    if (this.#bytes === null || this.#isTelling) return;
    this.#isTelling = true;
    telling = this;
    this.#socket?.emit("readable");
    telling = null;
    this.#isTelling = false;
  }

  #taken(): Buffer | null {
    const bytes = this.#bytes;
    this.#bytes = null;
    return bytes;
  }
}

/** How far an answer in chunks was followed. */
interface Body {
  readonly reader: BodyReader;
  readonly framing: ChunkFraming;
  hasHead: boolean;
  /** undici is between two chunks, and is told of no content. */
  isDirect: boolean;
  isPaused: boolean;
  isLent: boolean;
}

/** -1: the bytes do not begin with a whole head of an answer that has a body. */
function endOfHead(bytes: Buffer): number {
  if (bytes.toString("latin1", 0, HEAD.length) !== HEAD) return -1;
  const end = bytes.indexOf("\r\n\r\n");
  return end < 0 ? -1 : end + 4;
}

const HEAD = "HTTP/1.1 200 ";
