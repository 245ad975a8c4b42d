import type { Socket } from "node:net";
import type { PeerAddress } from "./contract.ts";
import { FrameOutbox } from "./frame-outbox.ts";
import {
  FRAME,
  FRAME_BYTES_MAX,
  type Frame,
  FrameFields,
  FrameReader,
  FrameWriter,
  frameOf,
  REACH,
} from "./frames.ts";
import { introduce, type Purpose } from "./handshake.ts";
import {
  ARRIVED,
  CLOSED,
  CORRUPT,
  LINK_DOWN,
  type NativeContext,
  type NativeEvent,
  QUIET,
} from "./native/native-context.ts";
import { addPiece } from "./native/range-table.ts";
import { WordTable } from "./native/word-table.ts";
import type { NixlAgent } from "./nixl/agent.ts";
import type { TransferClientOptions } from "./options.ts";
import { openLink, openSocket, within } from "./peer-connection.ts";
import { PeerMaps } from "./peer-maps.ts";
import { PeerNixl } from "./peer-nixl.ts";
import type { PendingRead } from "./pending-read.ts";
import { CODES } from "./server-session.ts";
import { StreamIntake } from "./stream-intake.ts";
import { TransferError } from "./transfer-error.ts";

const IDLE_MS = 60_000;
const STALL_MS = 20_000;
const ALL_READS = 0xffffffff;
const OFFER_ID = /^[0-9a-f]{32}$/;

interface Reading {
  readonly read: PendingRead;
  readonly intake: StreamIntake;
  /** Pieces that were copied, or are being copied, from shared memory. */
  readonly mapped: Set<number>;
  /** Pieces that NIXL has read, whose owner was asked whether they stand. */
  readonly checked: Set<number>;
  copies: number;
  quiet: (() => void) | null;
}

export interface PeerWays {
  /** Null: through JavaScript. */
  readonly native: NativeContext | null;
  readonly nixl: NixlAgent | null;
  readonly memory: boolean;
  readonly links: number;
}

/** One peer, while there is a connection to it. */
export class PeerSession {
  readonly ended: Promise<void>;
  readonly #options: TransferClientOptions;
  readonly #ways: PeerWays;
  readonly #maps: PeerMaps | null;
  readonly #nixl: PeerNixl | null;
  readonly #readings = new Map<number, Reading>();
  /** Reads that have settled for their peer, and whose memory may still be written. */
  readonly #settling = new Map<number, Reading>();
  readonly #socket: Socket;
  readonly #reader = new FrameReader();
  readonly #outbox: FrameOutbox;
  #receiver: { readonly handle: bigint; readonly tag: number } | null = null;
  #mayMap = false;
  #nextRead = 1;
  #over = false;
  #onOver: () => void = () => {};
  #resolveEnded: () => void = () => {};

  private constructor(socket: Socket, options: TransferClientOptions, ways: PeerWays) {
    this.#socket = socket;
    this.#outbox = new FrameOutbox(socket);
    this.#options = options;
    this.#ways = ways;
    const { onForgotten = () => {} } = options;
    const maps = ways.native !== null && ways.memory;
    const onCopied = (...copied: [number, number, boolean]) => this.#onCopied(...copied);
    this.#maps = maps ? new PeerMaps(ways.native, { onForgotten, onCopied }) : null;
    const { native, nixl } = ways;
    this.#nixl = native === null || nixl === null ? null : new PeerNixl(nixl, native);
    this.ended = new Promise((resolve) => {
      this.#resolveEnded = resolve;
    });
  }

  /** Connects, and shows and asks for the secret. Rejects with a TransferError. */
  static async open(
    peer: PeerAddress,
    options: TransferClientOptions,
    ways: PeerWays,
  ): Promise<PeerSession> {
    const socket = openSocket(peer, options);
    const session = new PeerSession(socket, options, ways);
    try {
      await session.#enter(peer);
    } catch (error) {
      session.#fail("closed", "the connection could not be opened");
      await session.ended;
      if (error instanceof TransferError) throw error;
      throw new TransferError("closed", String(error), error);
    }
    return session;
  }

  async #enter(peer: PeerAddress): Promise<void> {
    const secret = this.#options.secret ?? "";
    const { session, sameMachine } = await within(this.#options, this.#socket, (socket) =>
      introduce(socket, secret, { kind: "control" }, this.#reader),
    );
    this.#mayMap = sameMachine && this.#maps !== null;
    this.#serve();
    const { native, links } = this.#ways;
    if (native === null || links === 0) return;
    const purpose: Purpose = { kind: "data", session };
    const opened = await Promise.allSettled(
      Array.from({ length: links }, () => openLink(peer, this.#options, purpose)),
    );
    const descriptors = opened.flatMap((each) => (each.status === "fulfilled" ? each.value : []));
    // A peer without native threads has none; what it sends comes by this connection.
    if (descriptors.length === 0) return;
    const tag = native.listen((event) => this.#onEvent(event));
    const stallMs = this.#options.stallMs ?? STALL_MS;
    const handle = native.library.openReceiver(native.context, BigInt(tag), stallMs);
    this.#receiver = { handle, tag };
    for (const fd of descriptors) native.library.addReceiverLink(handle, fd);
    if (this.#over) this.#closeReceiver();
    else this.#outbox.push(frameOf(FRAME.linked));
  }

  #serve(): void {
    const socket = this.#socket;
    this.#reader.bytesMax = FRAME_BYTES_MAX;
    const read = (chunk: Buffer) => {
      try {
        this.#reader.read(chunk, (frame) => this.#take(frame));
      } catch (error) {
        this.#fail("corrupt", error instanceof Error ? error.message : String(error));
      }
    };
    socket.setNoDelay(true);
    socket.setKeepAlive(true, 10_000);
    socket.setTimeout(this.#options.idleMs ?? IDLE_MS);
    socket.on("timeout", () => {
      if (this.#readings.size === 0) this.#fail("closed", "it was idle");
    });
    socket.on("error", () => {});
    socket.on("data", read);
    socket.on("close", () => this.#fail("closed", "the connection ended"));
    read(Buffer.alloc(0));
    socket.resume();
    socket.unref();
  }

  get over(): boolean {
    return this.#over;
  }

  begin(read: PendingRead): void {
    if (this.#over) {
      read.fail("closed", "the connection ended");
      return;
    }
    if (read.ending) {
      this.#giveUp(read);
      return;
    }
    const id = this.#newId();
    const intake = new StreamIntake(read);
    const sets = { mapped: new Set<number>(), checked: new Set<number>() };
    const reading: Reading = { read, intake, ...sets, copies: 0, quiet: null };
    this.#readings.set(id, reading);
    read.onStop((quiet, done) => this.#stop(id, reading, { quiet, done }));
    this.#expect(id, read);
    const nixl = this.#nixl?.reaches(read) === true;
    if (OFFER_ID.test(read.request.offer)) this.#ask(id, read.request.offer, read.wanted, nixl);
    else read.fail("unknown_offer", "an offer's id has 32 hexadecimal digits");
  }

  /** The read was given up before there was a connection: the owner need not wait for it. */
  #giveUp({ request }: PendingRead): void {
    if (OFFER_ID.test(request.offer)) this.#ask(this.#newId(), request.offer, new Map());
  }

  #newId(): number {
    const id = this.#nextRead;
    this.#nextRead = id === ALL_READS - 1 ? 1 : id + 1;
    return id;
  }

  #ask(id: number, offer: string, wanted: ReadonlyMap<number, number>, nixl = false): void {
    const writer = new FrameWriter(25 + 10 * wanted.size);
    writer.u32(id).bytes(Buffer.from(offer, "hex"));
    writer.u8((this.#mayMap ? REACH.maps : 0) | (nixl ? REACH.nixl : 0)).u32(wanted.size);
    for (const [index, bytes] of wanted) writer.u32(index).u48(bytes);
    this.#outbox.push(writer.frame(FRAME.read));
  }

  #expect(id: number, read: PendingRead): void {
    const { native } = this.#ways;
    if (native === null || this.#receiver === null) return;
    const table = new WordTable();
    for (const [piece, ranges] of read.targets) {
      addPiece(table, native.library, { read: id, piece, ranges });
    }
    native.library.expect(this.#receiver.handle, table.halves, read.targets.size);
  }

  /** The read has settled, or will: calls `quiet` once its memory is not written any more. */
  #stop(id: number, reading: Reading, end: { quiet: () => void; done: boolean }): void {
    this.#readings.delete(id);
    this.#settling.set(id, reading);
    reading.quiet = () => {
      this.#settling.delete(id);
      end.quiet();
    };
    const cancel = new FrameWriter(5).u32(id).u8(end.done ? 1 : 0);
    if (!this.#over) this.#outbox.push(cancel.frame(FRAME.cancel));
    const { native } = this.#ways;
    const busy =
      native !== null &&
      this.#receiver !== null &&
      (this.#over || native.library.forget(this.#receiver.handle, id) === 0);
    if (busy) reading.copies++;
    if (reading.copies === 0) reading.quiet();
  }

  #written(reading: Reading): void {
    reading.copies--;
    if (reading.copies === 0) reading.quiet?.();
  }

  #take({ type, content }: Frame): boolean {
    const fields = new FrameFields(content);
    if (type === FRAME.slice) this.#readings.get(fields.u32())?.intake.take(fields);
    else if (type === FRAME.end) this.#end(fields);
    else if (type === FRAME.at) this.#copy(fields);
    else if (type === FRAME.remote) this.#readRemote(fields);
    else if (type === FRAME.stands) this.#stands(fields);
    else if (type === FRAME.agent && this.#nixl !== null) {
      if (!this.#nixl.meet(content)) this.#outbox.push(frameOf(FRAME.notReached));
    } else if (type === FRAME.segment && this.#maps !== null) {
      if (!this.#maps.map(fields)) {
        this.#mayMap = false;
        this.#outbox.push(frameOf(FRAME.notMapped));
      }
    } else if (type === FRAME.placed && this.#maps !== null) {
      // Pieces in it fail then, each by itself: other memory may still be mapped.
      this.#maps.describe(fields);
    } else throw new TransferError("corrupt", `A frame of type ${type} came`);
    return !this.#over;
  }

  #end(fields: FrameFields): void {
    const read = this.#readings.get(fields.u32())?.read;
    const code = CODES[fields.u8()] ?? "failed";
    read?.fail(code, fields.bytes(fields.left).toString("utf8"));
  }

  /** The owner says where pieces are. */
  #copy(fields: FrameFields): void {
    const id = fields.u32();
    const reading = this.#readings.get(id);
    const maps = this.#maps;
    if (reading === undefined || maps === null) return;
    const { read, mapped } = reading;
    const validity = maps.standing(fields);
    while (fields.left > 0 && !read.ending) {
      const piece = fields.u32();
      if (!read.wanted.has(piece) || mapped.has(piece)) {
        read.fail("corrupt", `piece ${piece} was not asked for, or came twice`);
      } else if (maps.copy({ id, read }, piece, fields, validity)) {
        reading.copies++;
        mapped.add(piece);
      } else if (!read.targets.has(piece)) {
        read.fail("failed", `piece ${piece} is in memory that cannot be reached`);
      }
    }
  }

  #onCopied(id: number, piece: number, valid: boolean): void {
    const reading = this.#readings.get(id) ?? this.#settling.get(id);
    if (reading === undefined) return;
    if (valid && !this.#over) {
      this.#outbox.about(FRAME.taken, id, 4).u32(piece);
      reading.read.arrived(piece);
    } else if (!valid) {
      reading.read.fail("failed", "a piece could not be copied, or the offer ended meanwhile");
    }
    this.#written(reading);
  }

  /** The owner says whether what was read had stayed as it was. */
  #readRemote(fields: FrameFields): void {
    const id = fields.u32();
    const piece = fields.u32();
    const reading = this.#readings.get(id);
    if (reading === undefined || this.#nixl === null) return;
    const { read, mapped } = reading;
    if (!read.wanted.has(piece) || mapped.has(piece)) {
      read.fail("corrupt", `piece ${piece} was not asked for, or came twice`);
      return;
    }
    const reads = this.#nixl.read(read, piece, fields, (ok) => {
      if (!ok) read.fail("failed", "NIXL could not read a piece");
      else if (!this.#over) {
        reading.checked.add(piece);
        this.#outbox.about(FRAME.check, id, 4).u32(piece);
      }
      this.#written(reading);
    });
    if (!reads) return;
    reading.copies++;
    mapped.add(piece);
  }

  #stands(fields: FrameFields): void {
    const reading = this.#readings.get(fields.u32());
    while (fields.left > 0) {
      const piece = fields.u32();
      if (reading?.checked.has(piece) === true) reading.read.arrived(piece);
    }
  }

  #onEvent({ kind, read, piece }: NativeEvent): void {
    if (kind === ARRIVED) this.#readings.get(read)?.read.arrived(piece);
    else if (kind === LINK_DOWN) this.#fail("closed", "a data connection ended");
    else if (kind === QUIET) {
      const reading = this.#settling.get(read);
      if (reading !== undefined) this.#written(reading);
    } else if (kind === CORRUPT && read === ALL_READS) this.#fail("corrupt", "a broken header");
    else if (kind === CORRUPT) {
      this.#readings.get(read)?.read.fail("corrupt", `piece ${piece} is not what was sent`);
    } else if (kind === CLOSED) this.#receiverClosed();
  }

  #receiverClosed(): void {
    const { native } = this.#ways;
    if (this.#receiver !== null) native?.forget(this.#receiver.tag);
    native?.letGo();
    this.#receiver = null;
    for (const reading of [...this.#settling.values()]) this.#written(reading);
    this.#resolveEnded();
  }

  close(): void {
    this.#fail("closed", "the client was closed");
  }

  #fail(code: "closed" | "corrupt", reason: string): void {
    if (this.#over) return;
    this.#over = true;
    this.#onOver();
    this.#socket.destroy();
    for (const { read } of [...this.#readings.values()]) read.fail(code, reason);
    if (this.#receiver === null) this.#resolveEnded();
    else this.#closeReceiver();
    this.#maps?.release();
    this.#nixl?.release();
  }

  #closeReceiver(): void {
    if (this.#receiver === null) return;
    this.#ways.native?.hold();
    this.#ways.native?.library.closeReceiver(this.#receiver.handle);
  }

  /** Calls `forget` when no read can begin here any more. */
  onOver(forget: () => void): void {
    if (this.#over) forget();
    else this.#onOver = forget;
  }
}
