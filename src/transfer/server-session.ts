import type { Socket } from "node:net";
import type { PiecesByWay } from "./contract.ts";
import { FrameOutbox } from "./frame-outbox.ts";
import {
  FRAME,
  FRAME_BYTES_MAX,
  type Frame,
  FrameFields,
  type FrameReader,
  FrameWriter,
  frameOf,
  REACH,
} from "./frames.ts";
import {
  CLOSED,
  LINK_DOWN,
  type NativeContext,
  type NativeEvent,
  QUIET,
  SENT,
} from "./native/native-context.ts";
import { addPiece, wordsOf } from "./native/range-table.ts";
import { WordTable } from "./native/word-table.ts";
import type { NixlAgent } from "./nixl/agent.ts";
import type { OfferBook } from "./offer-book.ts";
import { PIECES_MAX } from "./offer-book.ts";
import type { ReadSlot, ReadSlots } from "./read-slots.ts";
import { type ReadWays, SessionRead } from "./session-read.ts";
import type { Segment, SharedPlace } from "./shared-memory.ts";
import { StandingOffer } from "./standing-offer.ts";
import { StreamQueue } from "./stream-queue.ts";
import { TransferError, type TransferErrorCode } from "./transfer-error.ts";

/** Reads of one connection at once. */
const READS_MAX = 1024;
const ID_BYTES = 16;
/** Of one piece that NIXL reads: a frame has room for them. */
const REMOTE_RANGES_MAX = 65_536;
/** Pieces that one call names. */
const TABLE_PIECES_MAX = 64;
const REASON_BYTES_MAX = 400;
/** Unsent bytes of answers: a peer that asks and does not listen is cut off. */
const UNSENT_BYTES_MAX = 16 << 20;

export const CODES: readonly TransferErrorCode[] = [
  "refused",
  "unknown_offer",
  "timed_out",
  "corrupt",
  "closed",
  "aborted",
  "failed",
];

export interface SessionParts {
  readonly book: OfferBook;
  readonly slots: ReadSlots;
  /** Null: no data connections. */
  readonly native: NativeContext | null;
  /** Null: not used. */
  readonly nixl: NixlAgent | null;
  /** Pieces of all sessions. */
  readonly pieces: Record<keyof PiecesByWay, number>;
  readonly stallMs: number;
  readonly idleMs: number;
}

/** One reader's connection: what it asked for, and the ways by which that goes to it. */
export class ServerSession implements ReadWays {
  readonly ended: Promise<void>;
  readonly #socket: Socket;
  readonly #parts: SessionParts;
  readonly #reads = new Map<number, SessionRead>();
  readonly #stream: StreamQueue;
  readonly #outbox: FrameOutbox;
  readonly #told = new Set<number>();
  readonly #quiet = new Map<number, () => void>();
  /** Data connections that the peer has not said it is ready for. */
  #waiting: number[] = [];
  #sender: { readonly handle: bigint; readonly tag: number } | null = null;
  #mapping = true;
  #nixl = true;
  #toldVersion = -1;
  #over = false;
  #resolveEnded: () => void = () => {};
  readonly #table = new WordTable();
  #tableCount = 0;
  #latestRead = 0;

  constructor(socket: Socket, reader: FrameReader, parts: SessionParts) {
    this.#socket = socket;
    this.#parts = parts;
    this.#stream = new StreamQueue(socket);
    this.#outbox = new FrameOutbox(socket);
    this.ended = new Promise((resolve) => {
      this.#resolveEnded = resolve;
    });
    reader.bytesMax = FRAME_BYTES_MAX;
    const read = (chunk: Buffer) => {
      try {
        reader.read(chunk, (frame) => this.#take(frame));
      } catch (error) {
        this.close(error instanceof TransferError ? error.message : String(error));
      }
    };
    socket.setTimeout(Math.min(parts.idleMs, parts.stallMs));
    let idleSince = Date.now();
    socket.on("timeout", () => {
      if (socket.writableLength > 0) this.close("the reader stalled");
      else if (this.#reads.size > 0) idleSince = Date.now();
      else if (Date.now() - idleSince + parts.stallMs >= parts.idleMs) this.close("it was idle");
    });
    socket.on("data", (chunk: Buffer) => {
      idleSince = Date.now();
      read(chunk);
    });
    socket.on("error", () => {});
    socket.on("close", () => this.close("the reader's connection ended"));
    read(Buffer.alloc(0));
    socket.resume();
  }

  /** Whether another data connection may come. */
  mayAddLink(linksMax: number): boolean {
    return this.#parts.native !== null && !this.#over && this.#waiting.length < linksMax;
  }

  /** Takes a descriptor over. */
  addLink(fd: number): void {
    this.#waiting.push(fd);
  }

  close(reason: string): void {
    if (this.#over) return;
    this.#over = true;
    this.#socket.destroy();
    this.#linkUp();
    for (const read of [...this.#reads.values()]) read.offer?.abandon(reason);
    if (this.#sender === null) this.#resolveEnded();
    else {
      this.#parts.native?.hold();
      this.#parts.native?.library.closeSender(this.#sender.handle);
    }
  }

  #take({ type, content }: Frame): boolean {
    const fields = new FrameFields(content);
    switch (type) {
      case FRAME.read:
        this.#begin(fields);
        break;
      case FRAME.cancel:
        this.#cancel(fields.u32(), fields.u8() === 1);
        break;
      case FRAME.taken:
        this.#taken(fields);
        break;
      case FRAME.linked:
        this.#linkUp();
        break;
      case FRAME.notMapped:
        this.#mapping = false;
        for (const read of this.#reads.values()) read.sendAgain("mapped");
        break;
      case FRAME.check:
        this.#check(fields);
        break;
      case FRAME.notReached:
        this.#nixl = false;
        for (const read of this.#reads.values()) read.sendAgain("nixl");
        break;
      default:
        throw new TransferError("corrupt", `A frame of type ${type} came`);
    }
    return !this.#over;
  }

  #begin(fields: FrameFields): void {
    const id = fields.u32();
    const offerId = fields.bytes(ID_BYTES).toString("hex");
    const reach = fields.u8();
    const count = fields.u32();
    // What native threads still say of an ended read must not be taken for another one.
    if (count > PIECES_MAX || fields.left !== count * 10 || id <= this.#latestRead) {
      throw new TransferError("corrupt", "A read was not well formed");
    }
    this.#latestRead = id;
    const wanted = new Map<number, number>();
    for (let at = 0; at < count; at++) wanted.set(fields.u32(), fields.u48());
    if (this.#reads.size >= READS_MAX) {
      this.sendEnd(id, "refused", `more than ${READS_MAX} reads of one connection`);
      return;
    }
    const read = new SessionRead(this, id, wanted, {
      maps: (reach & REACH.maps) !== 0,
      nixl: (reach & REACH.nixl) !== 0,
    });
    this.#reads.set(id, read);
    const offer = this.#parts.book.attach(offerId, read);
    if (offer instanceof StandingOffer) read.offer = offer;
    else {
      this.#reads.delete(id);
      this.sendEnd(id, offer.code, offer.reason);
    }
  }

  /** The reader has copied pieces. */
  #taken(fields: FrameFields): void {
    const read = this.#reads.get(fields.u32());
    while (fields.left > 0) {
      const piece = fields.u32();
      read?.taken(piece);
    }
  }

  /** Pieces were read out of this process's memory: they count if the offer still stands. */
  #check(fields: FrameFields): void {
    const id = fields.u32();
    while (fields.left > 0) {
      const piece = fields.u32();
      if (this.#reads.get(id)?.standing(piece) !== true) continue;
      this.#about(FRAME.stands, id, 4).u32(piece);
    }
  }

  /** The reader wants no more: it has everything, or gave up. */
  #cancel(id: number, done: boolean): void {
    const read = this.#reads.get(id);
    if (done) read?.allTaken();
    read?.offer?.abandon("the reader gave up");
  }

  #linkUp(): void {
    const { native, stallMs } = this.#parts;
    if (native === null || this.#waiting.length === 0) return;
    if (this.#sender === null) {
      const tag = native.listen((event) => this.#onEvent(event));
      const handle = native.library.openSender(native.context, BigInt(tag), stallMs);
      this.#sender = { handle, tag };
    }
    for (const fd of this.#waiting.splice(0)) native.library.addSenderLink(this.#sender.handle, fd);
  }

  #onEvent({ kind, read, piece }: NativeEvent): void {
    if (kind === SENT) this.#reads.get(read)?.taken(piece);
    else if (kind === LINK_DOWN) this.close("a data connection ended");
    else if (kind === QUIET) this.#becameQuiet(read);
    else if (kind === CLOSED) {
      const { native } = this.#parts;
      if (this.#sender !== null) native?.forget(this.#sender.tag);
      native?.letGo();
      this.#sender = null;
      for (const id of [...this.#quiet.keys()]) this.#becameQuiet(id);
      this.#resolveEnded();
    }
  }

  #becameQuiet(read: number): void {
    const quiet = this.#quiet.get(read);
    this.#quiet.delete(read);
    quiet?.();
  }

  went(way: keyof PiecesByWay): void {
    this.#parts.pieces[way]++;
  }

  takeSlot(): ReadSlot | null {
    return this.#mapping ? this.#parts.slots.take() : null;
  }

  /** Sends by data connections, or else by this one. */
  sendBytes(read: number, piece: number, ranges: readonly Uint8Array[], sent: () => void): void {
    const { native } = this.#parts;
    if (this.#over) return;
    if (native === null || this.#sender === null) {
      this.#stream.add(read, piece, ranges, sent);
      return;
    }
    if (this.#tableCount++ === 0) queueMicrotask(() => this.#flushTable());
    addPiece(this.#table, native.library, { read, piece, ranges });
    // The first pieces travel while the later ones are named.
    if (this.#tableCount >= TABLE_PIECES_MAX) this.#flushTable();
  }

  /** One call for all pieces of a turn. */
  #flushTable(): void {
    const count = this.#tableCount;
    this.#tableCount = 0;
    if (!this.#over && this.#sender !== null && count > 0) {
      this.#parts.native?.library.send(this.#sender.handle, this.#table.halves, count);
    }
    this.#table.clear();
  }

  /** Tells where a piece is, in memory that the peer can map. */
  sendPlaces(id: number, piece: number, slot: ReadSlot, places: readonly SharedPlace[]): void {
    this.#tell(slot.segment);
    for (const { segment, placedBytes } of places) this.#tell(segment, placedBytes);
    const writer = this.#about(FRAME.at, id, 8 + places.length * 16, (head) => {
      head.u32(slot.segment.id).u32(slot.index).u64(slot.token);
    });
    writer.u32(piece).u32(places.length);
    for (const { segment, offset, bytes } of places) {
      writer.u32(segment.id).u48(offset).u48(bytes);
    }
  }

  sendRemote(id: number, piece: number, ranges: readonly Uint8Array[]): boolean {
    const { native, nixl } = this.#parts;
    if (native === null || nixl === null || !this.#nixl) return false;
    const words = wordsOf(native.library, ranges);
    const pairs = words.length / 2;
    if (pairs > REMOTE_RANGES_MAX) return false;
    for (let at = 0; at < words.length; at += 2) {
      if (!nixl.covers(words[at]!, words[at + 1]!)) return false;
    }
    if (this.#toldVersion !== nixl.version) {
      this.#toldVersion = nixl.version;
      this.#write(frameOf(FRAME.agent, nixl.metadata()));
    }
    const writer = new FrameWriter(8 + pairs * 14).u32(id).u32(piece);
    for (let at = 0; at < words.length; at += 2) {
      writer.u64(BigInt(words[at]!)).u48(words[at + 1]!);
    }
    this.#write(writer.frame(FRAME.remote));
    return true;
  }

  /** `placedBytes`: the segment describes so much memory, and is not the memory itself. */
  #tell({ id, fd, bytes, name }: Segment, placedBytes?: number): void {
    if (this.#told.has(id)) return;
    this.#told.add(id);
    const writer = new FrameWriter(24 + name.length);
    writer.u32(id).u32(process.pid).u32(fd).u48(bytes);
    if (placedBytes !== undefined) writer.u48(placedBytes);
    writer.bytes(Buffer.from(name));
    this.#write(writer.frame(placedBytes === undefined ? FRAME.segment : FRAME.placed));
  }

  sendEnd(id: number, code: TransferErrorCode, reason: string): void {
    const head = new FrameWriter(5).u32(id).u8(CODES.indexOf(code));
    const text = Buffer.from(reason).subarray(0, REASON_BYTES_MAX);
    this.#write(frameOf(FRAME.end, head.content, text));
  }

  #write(frame: Buffer): void {
    if (this.#over) return;
    this.#outbox.push(frame);
    this.#boundUnsent();
  }

  #about(...what: Parameters<FrameOutbox["about"]>): FrameWriter {
    if (!this.#over) this.#boundUnsent();
    return this.#outbox.about(...what);
  }

  #boundUnsent(): void {
    if (this.#outbox.unsentBytes > UNSENT_BYTES_MAX) this.close("the reader does not listen");
  }

  /** The read is over: calls `quiet` when none of its memory is read any more. */
  finish(id: number, slot: ReadSlot | null, quiet: () => void): void {
    this.#reads.delete(id);
    if (slot !== null) this.#parts.slots.clear(slot);
    this.#stream.remove(id);
    const sender = this.#sender;
    if (sender === null || this.#parts.native === null) {
      quiet();
      return;
    }
    this.#flushTable();
    if (this.#over) this.#quiet.set(id, quiet);
    else if (this.#parts.native.library.cancel(sender.handle, id) === 1) quiet();
    else this.#quiet.set(id, quiet);
  }
}
