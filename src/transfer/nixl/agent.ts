import { randomUUID } from "node:crypto";
import { EngineError } from "#base";
import { listenToRegions, type Region } from "../regions.ts";
import {
  DRAM,
  type Handle,
  IN_PROGRESS,
  type NixlLibrary,
  nixlLibrary,
  READ,
  SUCCESS,
} from "./library.ts";

/** The back end that reaches host memory over whatever network there is. */
const BACKEND = "UCX";
/** Longest description of a peer: some hundred bytes, and more for each region. */
export const METADATA_BYTES_MAX = 1 << 20;
/** Smaller regions hold words and descriptions, no pieces. */
const REGION_BYTES_MIN = 65_536;
/** Reads under way at once: each look asks for the state of all of them. */
const READS_MAX = 64;
/** Looks at reads under way in turns of the loop before it waits between them. */
const EAGER_LOOKS = 64;
const LOOK_MS = 1;
const CLOSING_MS_MAX = 10_000;

interface RegisteredRegion extends Region {
  readonly list: Handle;
}

interface Reading {
  readonly request: Handle;
  readonly done: (ok: boolean) => void;
}

/** A read that is not under way yet. */
interface Waiting {
  readonly peer: string;
  readonly rows: readonly number[];
  readonly done: (ok: boolean) => void;
}

/** Ways of NIXL to memory of other processes; one for each server or client that uses them. */
export class NixlAgent {
  readonly #library: NixlLibrary;
  readonly #agent: Handle;
  readonly #backend: Handle;
  readonly #options: Handle;
  readonly #regions = new Map<Region, RegisteredRegion>();
  readonly #reads = new Set<Reading>();
  readonly #waiting: Waiting[] = [];
  readonly #stopListening: () => void;
  #version = 0;
  #looks = 0;
  #isLooking = false;
  #closed = false;

  private constructor(library: NixlLibrary) {
    this.#library = library;
    const name = `perigee-${randomUUID()}`;
    this.#agent = made("an agent", (out) => library.createAgent(name, out));
    const memory: [Handle] = [null];
    const params: [Handle] = [null];
    must("its back end UCX", library.pluginParams(this.#agent, BACKEND, memory, params));
    this.#backend = made("its back end UCX", (out) =>
      library.createBackend(this.#agent, BACKEND, params[0], out),
    );
    library.destroyMemoryList(memory[0]);
    library.destroyParams(params[0]);
    this.#options = made("options", (out) => library.createOptions(out));
    must("options", library.addBackend(this.#options, this.#backend));
    this.#stopListening = listenToRegions({
      added: (region) => this.#register(region),
      removed: (region) => this.#deregister(region),
    });
  }

  /** Throws INVALID_ARGUMENT where NIXL or its back end for host memory cannot be had. */
  static open(path: string): NixlAgent {
    return new NixlAgent(nixlLibrary(path));
  }

  /** Changes with what `metadata` says. */
  get version(): number {
    return this.#version;
  }

  /** What peers need to read the regions: to know it is enough to do so. */
  metadata(): Buffer {
    const data: [Handle] = [null];
    const bytes: [number] = [0];
    must("its description", this.#library.localMetadata(this.#agent, data, bytes));
    const text = Buffer.from(Buffer.from(this.#library.view(data[0] ?? null, Number(bytes[0]))));
    this.#library.free(data[0] ?? null);
    return text;
  }

  /** Whether peers can be given, or read into, all of it. */
  covers(address: number, bytes: number): boolean {
    for (const region of this.#regions.values()) {
      const end = region.address + region.bytes;
      if (address >= region.address && address + bytes <= end) return true;
    }
    return false;
  }

  /** The peer's name, of what it says of itself; null: it is not understood. */
  load(metadata: Uint8Array): string | null {
    const name: [string | null] = [null];
    const status = this.#library.loadMetadata(this.#agent, metadata, metadata.byteLength, name);
    return status === SUCCESS ? name[0] : null;
  }

  forget(peer: string): void {
    if (!this.#closed) this.#library.forgetPeer(this.#agent, peer);
  }

  /**
   * Reads (from, to, bytes) of a peer. `done`: nothing is written any more; false: something is
   * missing. A network's read cannot be taken back: where the peer hangs, it is done when that goes
   * on, or when UCX holds it to be dead.
   */
  read(peer: string, rows: readonly number[], done: (ok: boolean) => void): void {
    this.#waiting.push({ peer, rows, done });
    this.#looks = 0;
    this.#lookSoon();
  }

  /** Waits for reads under way, for a while: what is still written to then stays registered. */
  async close(): Promise<void> {
    for (const { done } of this.#waiting.splice(0)) done(false);
    const endMs = performance.now() + CLOSING_MS_MAX;
    while (this.#reads.size > 0 && performance.now() < endMs) {
      await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
    }
    this.#closed = true;
    this.#stopListening();
    if (this.#reads.size > 0) return;
    for (const region of [...this.#regions.keys()]) this.#deregister(region);
    this.#library.destroyOptions(this.#options);
    this.#library.destroyBackend(this.#backend);
    this.#library.destroyAgent(this.#agent);
  }

  #postSome(): void {
    const free = READS_MAX - this.#reads.size;
    for (const { peer, rows, done } of this.#waiting.splice(0, free)) {
      const request = this.#request(peer, rows);
      const isPosted =
        request !== null && this.#library.post(this.#agent, request, this.#options) >= 0;
      if (isPosted) this.#reads.add({ request, done });
      else {
        if (request !== null) this.#destroy(request);
        done(false);
      }
    }
  }

  #request(peer: string, rows: readonly number[]): Handle | null {
    const library = this.#library;
    const lists = [null, null].map(() => made("ranges", (out) => library.createRanges(DRAM, out)));
    const [local = null, remote = null] = lists;
    for (let at = 0; at < rows.length; at += 3) {
      const bytes = rows[at + 2]!;
      library.addRange(remote, rows[at]!, bytes, 0);
      library.addRange(local, rows[at + 1]!, bytes, 0);
    }
    const request: [Handle] = [null];
    const { createRead } = library;
    const status = createRead(this.#agent, READ, local, remote, peer, request, this.#options);
    for (const list of lists) library.destroyRanges(list);
    return status === SUCCESS ? request[0] : null;
  }

  #destroy(request: Handle): void {
    this.#library.release(this.#agent, request);
    this.#library.destroyRead(request);
  }

  #end(reading: Reading, ok: boolean): void {
    if (this.#reads.delete(reading)) reading.done(ok);
  }

  #lookSoon(): void {
    const isIdle = this.#reads.size + this.#waiting.length === 0;
    if (this.#isLooking || this.#closed || isIdle) return;
    this.#isLooking = true;
    const look = () => {
      this.#isLooking = false;
      this.#look();
      this.#lookSoon();
    };
    if (this.#looks++ < EAGER_LOOKS) setImmediate(look);
    else setTimeout(look, LOOK_MS);
  }

  #look(): void {
    this.#postSome();
    for (const reading of [...this.#reads]) {
      const status = this.#library.status(this.#agent, reading.request);
      if (status === IN_PROGRESS) continue;
      this.#destroy(reading.request);
      this.#looks = 0;
      this.#end(reading, status === SUCCESS);
    }
  }

  #register(region: Region): void {
    if (region.bytes < REGION_BYTES_MIN) return;
    const library = this.#library;
    const list = made("a region", (out) => library.createRegions(DRAM, out));
    must("a region", library.addRegion(list, region.address, region.bytes, 0, null, 0));
    if (library.register(this.#agent, list, this.#options) !== SUCCESS) {
      // Its pieces go another way.
      library.destroyRegions(list);
      return;
    }
    this.#regions.set(region, { ...region, list });
    this.#version++;
  }

  #deregister(region: Region): void {
    const registered = this.#regions.get(region);
    if (registered === undefined) return;
    this.#regions.delete(region);
    this.#version++;
    this.#library.deregister(this.#agent, registered.list, this.#options);
    this.#library.destroyRegions(registered.list);
  }
}

function made(what: string, make: (out: [Handle]) => number): Handle {
  const out: [Handle] = [null];
  must(what, make(out));
  return out[0];
}

function must(what: string, status: number): void {
  if (status === SUCCESS) return;
  throw new EngineError(
    "INVALID_ARGUMENT",
    `Cannot use NIXL: it cannot make ${what} (status ${status}); UCX must reach this machine's ` +
      "network, see UCX_TLS and UCX_NET_DEVICES",
    { param: "nixl" },
  );
}

/** Null: NIXL is not used. It encrypts nothing, so it is not used beside TLS either. */
export function agentOf(options: {
  readonly nixl?: string;
  readonly tls?: object;
}): NixlAgent | null {
  const { nixl, tls } = options;
  return nixl === undefined || tls !== undefined ? null : NixlAgent.open(nixl);
}
