import koffi from "koffi";
import { findNativeFile } from "#base";

/** The native library of this layer. Tables are of 64-bit words (word-table.ts). */
export interface TransferLibrary {
  open(threads: number, wakeFd: Int32Array): bigint;
  drain(context: bigint, events: Uint8Array, max: number): number;
  address(memory: Uint8Array): number;
  crc32c(data: Uint8Array, bytes: number, seed: number): number;
  /** Without instructions of the processor. */
  crc32cPlain(data: Uint8Array, bytes: number, seed: number): number;
  copy(context: bigint, table: Uint32Array, jobs: number): void;
  openSender(context: bigint, tag: bigint, stallMs: number): bigint;
  /** 0: the sender is closed. Takes the descriptor over. */
  addSenderLink(sender: bigint, fd: number): number;
  send(sender: bigint, table: Uint32Array, pieces: number): void;
  /** 1: the read's memory is not read any more; 0: an event says when. */
  cancel(sender: bigint, read: number): number;
  closeSender(sender: bigint): void;
  openReceiver(context: bigint, tag: bigint, stallMs: number): bigint;
  addReceiverLink(receiver: bigint, fd: number): number;
  expect(receiver: bigint, table: Uint32Array, pieces: number): void;
  /** 1: the read's memory is not written any more; 0: an event says when. */
  forget(receiver: bigint, read: number): number;
  closeReceiver(receiver: bigint): void;
  /** A descriptor, or -1. */
  createShared(name: string, bytes: number, address: BigUint64Array): number;
  /** 0: not on this machine, not what it is said to be, or not allowed. */
  mapShared(pid: number, fd: number, name: string, bytes: number): number;
  /** 0: the descriptor has fewer bytes, or cannot be mapped. */
  mapInherited(fd: number, bytes: number): number;
  releaseShared(address: number, bytes: number, fd: number): void;
  view(address: number, bytes: number): ArrayBuffer;
}

let loaded: TransferLibrary | null | undefined;

/** Null where it was not built: pieces then travel through JavaScript. */
export function transferLibrary(): TransferLibrary | null {
  if (loaded === undefined) loaded = load();
  return loaded;
}

function load(): TransferLibrary | null {
  const path = findNativeFile("transfer");
  if (path === null) return null;
  const handle = koffi.load(path);
  const native = (signature: string) => handle.func(signature);
  return {
    open: native("void *perigee_transfer_open(int32_t threads, int32_t *wakeFd)"),
    drain: native("int32_t perigee_transfer_drain(void *context, void *events, int32_t max)"),
    address: exact(native("uint64_t perigee_transfer_address(const void *memory)")),
    crc32c: native("uint32_t perigee_transfer_crc32c(const void *data, int64_t n, uint32_t seed)"),
    crc32cPlain: native(
      "uint32_t perigee_transfer_crc32c_plain(const void *data, int64_t n, uint32_t seed)",
    ),
    copy: native("void perigee_transfer_copy(void *context, const void *table, int32_t jobs)"),
    openSender: native("void *perigee_sender_open(void *context, uint64_t tag, int32_t stallMs)"),
    addSenderLink: native("int32_t perigee_sender_add(void *sender, int32_t fd)"),
    send: native("void perigee_sender_send(void *sender, const void *table, int32_t pieces)"),
    cancel: native("int32_t perigee_sender_cancel(void *sender, uint32_t read)"),
    closeSender: native("void perigee_sender_close(void *sender)"),
    openReceiver: native("void *perigee_receiver_open(void *context, uint64_t tag, int32_t ms)"),
    addReceiverLink: native("int32_t perigee_receiver_add(void *receiver, int32_t fd)"),
    expect: native("void perigee_receiver_expect(void *receiver, const void *table, int32_t n)"),
    forget: native("int32_t perigee_receiver_forget(void *receiver, uint32_t read)"),
    closeReceiver: native("void perigee_receiver_close(void *receiver)"),
    createShared: native(
      "int32_t perigee_shared_create(const char *name, int64_t bytes, uint64_t *address)",
    ),
    mapShared: exact(
      native(
        "uint64_t perigee_shared_map(int32_t pid, int32_t fd, const char *name, int64_t bytes)",
      ),
    ),
    mapInherited: exact(native("uint64_t perigee_shared_inherit(int32_t fd, int64_t bytes)")),
    releaseShared: native("void perigee_shared_release(uint64_t address, int64_t n, int32_t fd)"),
    view: (address, bytes) => koffi.view(BigInt(address), bytes),
  };
}

/** An address comes as a bigint where it is large; a number holds all that there are. */
function exact<Args extends unknown[]>(call: (...args: Args) => bigint | number) {
  return (...args: Args): number => Number(call(...args));
}
