import type { Device, HostBlocks, KvPool } from "#devices";
import type { SharedRegion } from "#transfer";
import type { PeerLink } from "./peer-link.ts";

/** Host blocks that other engines reach as far as their memory allows. */
export function allocateHost(parts: {
  readonly device: Device;
  readonly pool: KvPool;
  readonly blocks: number;
  readonly shared: SharedParts | null;
}): HostBlocks {
  const { device, pool, blocks, shared } = parts;
  const before = shared?.count;
  const host = device.allocateHostBlocks(pool, blocks, shared?.allocate);
  if (shared !== null && shared.count === before) {
    shared.expose(device.hostBlock(host, 0), blocks * host.bytesPerBlock);
  }
  return host;
}

/** Host memory that other engines of this machine take blocks from. */
export class SharedParts {
  readonly #peers: Pick<PeerLink, "share" | "expose">;
  readonly #parts: SharedRegion[] = [];
  readonly #exposed: (() => void)[] = [];

  constructor(peers: Pick<PeerLink, "share" | "expose">) {
    this.#peers = peers;
  }

  /** Blocks that the device allocated itself, which only networks of machines reach. */
  expose(first: Uint8Array, bytes: number): void {
    this.#exposed.push(this.#peers.expose(first, bytes));
  }

  get count(): number {
    return this.#parts.length;
  }

  /** No network may reach blocks any more. */
  conceal(): void {
    for (const conceal of this.#exposed.splice(0)) conceal();
  }

  readonly allocate = (bytes: number): bigint | null => {
    const part = this.#peers.share(bytes);
    if (part !== null) this.#parts.push(part);
    return part?.address ?? null;
  };

  /** No block may be looked at any more. */
  release(): void {
    for (const part of this.#parts.splice(0)) part.release();
  }
}
