import { assert } from "#base";
import type { StageOffer } from "#engine/protocol";
import type { DevicePlace, FetchedPieces, PeerLink, Pull } from "#engine/tiers";
import type { PeerJob } from "#kvcache";
import type {
  CopyPlaced,
  PieceRanges,
  PiecesByWay,
  PlacedMemory,
  SharedRegion,
  WantedPiece,
} from "#transfer";
import { FetchMeter } from "./fetch-meter.ts";
import type { PeerAddress, PeerPort, PortOffer } from "./peer-port.ts";

/** Where the pieces of one transfer come from. */
export interface TrafficSource {
  readonly peer: PeerAddress;
  readonly offer: string;
  /** Leading pieces that come; all further ones fail. */
  readonly pieces: number;
  /** They are there already: they take the time of their way alone. */
  readonly isStored: boolean;
  readonly deadlineMs: number;
  /** The ends of each piece that are offered apart, in order. */
  readonly parts: readonly StageOffer[];
  /** Told when the first part of a piece has come. */
  readonly onBegun?: () => void;
  /** Told why pieces do not come. */
  readonly onFailure: (error: unknown) => void;
}

/** A piece with a place to come to. */
interface Waiting {
  readonly wanted: WantedPiece;
  /** Null: it is not copied from another device. */
  readonly pull: Pull | null;
  readonly settle: (ok: boolean) => void;
}

const LEAVE_MS = 5000;

/** One transfer from another engine. */
interface Incoming {
  readonly expected: number;
  /** Bytes of a piece that comes to the device; null: pieces come to host memory. */
  readonly placedBytes: number | null;
  readonly waiting: Map<number, Waiting>;
  /** Pieces that are there to be copied, and have no place to come to yet. */
  readonly early: Map<number, (place: Waiting | null) => void>;
  readonly stop: AbortController;
  source: TrafficSource | null;
  /** Its pieces are read, or were. */
  reading: boolean;
  /** No further piece is wanted. */
  isEnding: boolean;
  /** They are not read any more. */
  isRead: boolean;
  over: boolean;
}

/** Brings the jobs of transfers together with offers and reads of the port. */
export class PeerTraffic implements PeerLink {
  readonly #port: PeerPort;
  readonly #outgoing = new Map<number, PortOffer>();
  readonly #incoming = new Map<number, Incoming>();
  readonly #meter = new FetchMeter();
  #placed: PlacedMemory | null = null;

  constructor(port: PeerPort) {
    this.#port = port;
  }

  /** Sends the transfer's pieces as parts of the offer, until `endOutgoing`. */
  startOutgoing(transfer: number, offer: PortOffer): void {
    this.#outgoing.set(transfer, offer);
  }

  endOutgoing(transfer: number): void {
    this.#outgoing.delete(transfer);
  }

  /**
   * A transfer of `pieces` pieces from another engine begins: their jobs come next. `placedBytes`:
   * of each, where they come to the device.
   */
  startIncoming(transfer: number, pieces: number, placedBytes: number | null = null): void {
    const rest = { source: null, reading: false, isEnding: false, isRead: false, over: false };
    const begun = { waiting: new Map(), early: new Map(), stop: new AbortController(), ...rest };
    this.#incoming.set(transfer, { expected: pieces, placedBytes, ...begun });
  }

  /**
   * Where the pieces come from. Those that come to host memory are read once all have a place to
   * come to. Those that come to the device are read at once, and each is copied when it has one.
   */
  readFrom(transfer: number, source: TrafficSource): void {
    const incoming = this.#incoming.get(transfer);
    if (incoming === undefined || incoming.over) return;
    incoming.source = source;
    this.#readWhereReady(incoming);
  }

  /** No piece that has not come will: their jobs fail when nothing writes to them any more. */
  stopIncoming(transfer: number): void {
    const incoming = this.#incoming.get(transfer);
    if (incoming === undefined) return;
    const { source, reading, over } = incoming;
    incoming.over = true;
    incoming.stop.abort();
    giveUpEarly(incoming);
    if (source === null) failAll(incoming);
    else if (!reading && !over) this.leave(source);
  }

  endIncoming(transfer: number): void {
    this.stopIncoming(transfer);
    this.#incoming.delete(transfer);
  }

  /** Ends offers of which nothing is read, or no more: their blocks are held until then. */
  leave({ peer, offer, parts }: Pick<TrafficSource, "peer" | "offer" | "parts">): void {
    const nothing = { pieces: [], onPiece: () => {}, copyPlaced: () => {} };
    const { signal } = new AbortController();
    for (const one of [{ offer, port: peer.port }, ...parts]) {
      const read = { peer: { host: peer.host, port: one.port }, offer: one.offer, ...nothing };
      // It ends without being told, too, only later.
      this.#port.read({ ...read, signal, deadlineMs: LEAVE_MS }).catch(() => {});
    }
  }

  share(bytes: number): SharedRegion | null {
    return this.#port.share(bytes);
  }

  sent(): PiecesByWay {
    return this.#port.sent();
  }

  fetched(): FetchedPieces {
    return this.#meter.read();
  }

  expose(first: Uint8Array, bytes: number): () => void {
    return this.#port.expose(first, bytes);
  }

  place(description: string, bytes: number): void {
    this.#placed = this.#port.place(description, bytes);
  }

  onForgotten(forgotten: (description: string) => void): void {
    this.#port.onForgotten(forgotten);
  }

  send(job: PeerJob, parts: readonly Uint8Array[]): Promise<boolean> {
    return this.#send(job, parts);
  }

  sendPlaced(job: PeerJob, places: readonly DevicePlace[]): Promise<boolean> {
    const memory = this.#placed;
    assert(memory !== null, "Cannot send from a device that was not described");
    const ranges = places.map((place) => ({ memory, ...place }));
    return this.#send(job, ranges);
  }

  receive(job: PeerJob, parts: readonly Uint8Array[]): Promise<boolean> {
    return this.#receive(job, { wanted: { index: job.piece, into: parts }, pull: null });
  }

  receivePlaced(job: PeerJob, bytes: number, pull: Pull): Promise<boolean> {
    return this.#receive(job, { wanted: { index: job.piece, bytes }, pull });
  }

  async #send({ transfer, piece }: PeerJob, ranges: PieceRanges): Promise<boolean> {
    const offer = this.#outgoing.get(transfer);
    if (offer === undefined) return false;
    return await new Promise((resolve) => {
      void offer.ended.then(() => resolve(false));
      offer.ready(piece, ranges, () => resolve(true));
    });
  }

  async #receive({ transfer, piece }: PeerJob, target: Omit<Waiting, "settle">): Promise<boolean> {
    const incoming = this.#incoming.get(transfer);
    if (incoming === undefined || (incoming.over && incoming.source === null)) return false;
    if (incoming.isRead || (incoming.reading && piece >= wantedOf(incoming))) return false;
    return await new Promise((resolve) => {
      const waiting = { ...target, settle: resolve };
      incoming.waiting.set(piece, waiting);
      const copy = incoming.early.get(piece);
      incoming.early.delete(piece);
      copy?.(waiting);
      this.#readWhereReady(incoming);
    });
  }

  #readWhereReady(incoming: Incoming): void {
    const { source, waiting, expected, placedBytes, reading } = incoming;
    if (reading || source === null || (placedBytes === null && waiting.size < expected)) return;
    incoming.reading = true;
    void this.#read(incoming, source).finally(() => {
      incoming.isRead = true;
      failAll(incoming);
    });
  }

  async #read(incoming: Incoming, source: TrafficSource): Promise<void> {
    const { waiting, early, placedBytes, stop } = incoming;
    const { peer, offer, deadlineMs, onBegun = () => {}, onFailure } = source;
    let hasBegun = false;
    const pieces: WantedPiece[] = [];
    for (let index = 0; placedBytes !== null && index < wantedOf(incoming); index++) {
      pieces.push({ index, bytes: placedBytes });
    }
    for (const [piece, { wanted, settle }] of [...waiting]) {
      if (piece >= source.pieces) {
        waiting.delete(piece);
        settle(false);
      } else if (placedBytes === null) pieces.push(wanted);
    }
    if (pieces.length === 0) return;
    // Room that is still made is no time of their way.
    let came = placedBytes === null ? this.#meter.begin(pieces.length) : null;
    const missing = new Map(pieces.map(({ index }) => [index, 1 + source.parts.length]));
    const onPiece = (piece: number) => {
      if (!hasBegun) onBegun();
      hasBegun = true;
      const parts = (missing.get(piece) ?? 0) - 1;
      missing.set(piece, parts);
      if (parts > 0) return;
      waiting.get(piece)?.settle(true);
      waiting.delete(piece);
    };
    const copyPlaced: CopyPlaced = (piece, from, done) => {
      const copy = (place: Waiting | null) => {
        const pull = place?.pull ?? null;
        if (pull === null) {
          done(false);
          return;
        }
        came ??= this.#meter.begin(pieces.length);
        pull(from).then(done, () => done(false));
      };
      const place = waiting.get(piece);
      // What the other engine has is there only until it is told that this read has ended.
      if (incoming.over || incoming.isEnding) copy(null);
      else if (place !== undefined || placedBytes === null) copy(place ?? null);
      else early.set(piece, copy);
    };
    // Where one part does not come, the others are of no use.
    const failed = new AbortController();
    const signal = AbortSignal.any([stop.signal, failed.signal]);
    const onEnding = () => {
      incoming.isEnding = true;
      giveUpEarly(incoming);
    };
    const common = { copyPlaced, onPiece, onEnding, signal, deadlineMs };
    const offers = [{ offer, port: peer.port, bytes: 0 }, ...source.parts];
    const reads = partsOf(pieces, source.parts).map((pieces, place) => {
      const { offer = "", port = 0 } = offers[place] ?? {};
      const read = this.#port.read({ ...common, peer: { host: peer.host, port }, offer, pieces });
      // What does not come is computed.
      return read.catch((error: unknown) => {
        if (failed.signal.aborted) return;
        failed.abort();
        this.leave(source);
        onFailure(error);
      });
    });
    await Promise.all(reads);
    if (source.isStored && !failed.signal.aborted && !stop.signal.aborted) came?.();
  }
}

/** The pieces as each stage offers them: the first has what the others leave of each. */
function partsOf(
  pieces: readonly WantedPiece[],
  parts: readonly StageOffer[],
): readonly (readonly WantedPiece[])[] {
  if (parts.length === 0) return [pieces];
  const later = parts.reduce((sum, { bytes }) => sum + bytes, 0);
  return [null, ...parts].map((part, place) =>
    pieces.map((piece) => {
      const { index } = piece;
      const into = "into" in piece ? piece.into : [];
      const whole = into.reduce((sum, { length }) => sum + length, 0);
      const behind = parts.slice(Math.max(0, place - 1)).reduce((sum, { bytes }) => sum + bytes, 0);
      const start = part === null ? 0 : whole - behind;
      const bytes = part === null ? whole - later : part.bytes;
      return { index, into: cut(into, start, start + bytes) };
    }),
  );
}

/** Bytes `start` up to `end` of ranges that lie behind each other. */
function cut(ranges: readonly Uint8Array[], start: number, end: number): Uint8Array[] {
  const found: Uint8Array[] = [];
  let at = 0;
  for (const range of ranges) {
    const from = Math.max(start - at, 0);
    const to = Math.min(end - at, range.length);
    if (from < to) found.push(range.subarray(from, to));
    at += range.length;
  }
  return found;
}

/** Leading pieces that are read. */
function wantedOf({ expected, source }: Incoming): number {
  return Math.min(expected, source?.pieces ?? expected);
}

/** What has no place yet is not copied. */
function giveUpEarly({ early }: Incoming): void {
  for (const place of early.values()) place(null);
  early.clear();
}

function failAll({ waiting }: Incoming): void {
  for (const { settle } of waiting.values()) settle(false);
  waiting.clear();
}
