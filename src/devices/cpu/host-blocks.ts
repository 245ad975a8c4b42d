import { assert } from "#base";
import type { HostBlocks } from "../device.ts";

/** Blocks of the host memory level; on this device the same memory as the cache. */
export class CpuHostBlocks implements HostBlocks {
  readonly blocks: number;
  readonly bytesPerBlock: number;
  readonly address: bigint;
  /** The device allocated the memory. */
  readonly isOwn: boolean;

  /** `address`: `blocks * bytesPerBlock` bytes. */
  constructor(
    blocks: number,
    bytesPerBlock: number,
    { address, isOwn }: { readonly address: bigint; readonly isOwn: boolean },
  ) {
    this.blocks = blocks;
    this.bytesPerBlock = bytesPerBlock;
    this.address = address;
    this.isOwn = isOwn;
  }

  /** Address of one block. */
  blockAddress(index: number): bigint {
    assert(index >= 0 && index < this.blocks, `Cannot view block ${index} of ${this.blocks}`);
    return this.address + BigInt(index) * BigInt(this.bytesPerBlock);
  }
}

/** The host blocks behind a handle. */
export function hostBlocksOf(handle: HostBlocks): CpuHostBlocks {
  assert(handle instanceof CpuHostBlocks, "Cannot use another device's blocks on cpu");
  return handle;
}
