import type { ReadRequest, TransferClient } from "./contract.ts";
import { plainCopier } from "./copier.ts";
import type { TransferClientOptions } from "./options.ts";
import { PendingRead } from "./pending-read.ts";
import { findLocal, readLocally } from "./same-process.ts";

/** Reads of this process. Connections are opened when they are needed. */
export function openTransferClient(options: TransferClientOptions = {}): TransferClient {
  return new Client(options);
}

class Client implements TransferClient {
  readonly #options: TransferClientOptions;
  readonly #reads = new Set<PendingRead>();
  #closed = false;

  constructor(options: TransferClientOptions) {
    this.#options = options;
  }

  async read(request: ReadRequest): Promise<void> {
    const read = new PendingRead(request);
    this.#reads.add(read);
    try {
      if (this.#closed) read.fail("closed", "the client is closed");
      else if (!read.ending) this.#begin(read);
      await read.settled;
    } finally {
      this.#reads.delete(read);
    }
  }

  #begin(read: PendingRead): void {
    const local = findLocal(read.request.peer);
    if (local === null) read.fail("closed", "nothing listens there");
    else if (local.secret !== (this.#options.secret ?? "")) read.fail("refused", "wrong secret");
    else readLocally(read, local.book, plainCopier);
  }

  async close(): Promise<void> {
    this.#closed = true;
    const reads = [...this.#reads];
    for (const read of reads) read.fail("closed", "the client was closed");
    await Promise.allSettled(reads.map((read) => read.settled));
  }
}
