import { KERNEL_NAMES, type Kernel, type KernelName, type Kernels } from "./kernels.ts";

/** What is kept at most: a program takes about 20 KB for a decoder of 12 layers. */
const KEPT = { programs: 512, bytes: 16 * 2 ** 20 };

/** Bytes of a call before its params: the kernel's address, and where its params are. */
const CALL_BYTES = 16;

/** What a program needs of the library. */
export interface ReplayLibrary {
  readonly kernels: Kernels;
  kernelAddress(name: KernelName): bigint;
  /** Runs `count` calls. */
  replay(program: ArrayBuffer, count: number): void;
}

interface Call {
  readonly name: KernelName;
  /** A copy: ops fill the same memory again. */
  readonly params: ArrayBuffer;
}

interface Program {
  readonly memory: ArrayBuffer;
  readonly count: number;
}

/**
 * Keeps what ops call under a key, with their arguments, and repeats it by one native call. Ops
 * pass addresses of the device's memory, never of the host's, so that nothing else must be kept.
 */
export class Replays {
  /** The library's; what is called while a key is new is kept. */
  readonly kernels: Kernels;
  readonly #library: ReplayLibrary;
  readonly #programs = new Map<string, Program>();
  #bytes = 0;
  #calls: Call[] | null = null;

  constructor(library: ReplayLibrary) {
    this.#library = library;
    const kept = KERNEL_NAMES.map((name): [KernelName, Kernel] => [name, this.#keeping(name)]);
    // fromEntries forgets the key type; the list above has every name.
    this.kernels = Object.fromEntries(kept) as Record<KernelName, Kernel>;
  }

  run(key: string, enqueue: () => void): void {
    const known = this.#programs.get(key);
    if (known !== undefined) {
      this.#library.replay(known.memory, known.count);
      return;
    }
    this.#calls = [];
    try {
      enqueue();
      this.#keep(key, this.#programOf(this.#calls));
    } finally {
      this.#calls = null;
    }
  }

  /** All that were kept are forgotten at once: keys of memory that changed never come again. */
  #keep(key: string, program: Program): void {
    const bytes = program.memory.byteLength;
    if (this.#programs.size >= KEPT.programs || this.#bytes + bytes > KEPT.bytes) {
      this.#programs.clear();
      this.#bytes = 0;
    }
    this.#programs.set(key, program);
    this.#bytes += bytes;
  }

  #keeping(name: KernelName): Kernel {
    const kernel = this.#library.kernels[name];
    return (params) => {
      this.#calls?.push({ name, params: params.slice(0) });
      kernel(params);
    };
  }

  #programOf(calls: readonly Call[]): Program {
    const start = calls.length * CALL_BYTES;
    const bytes = calls.reduce((sum, { params }) => sum + params.byteLength, start);
    const memory = new ArrayBuffer(bytes);
    const addresses = new BigUint64Array(memory);
    const numbers = new Float64Array(memory);
    let offset = start;
    calls.forEach(({ name, params }, at) => {
      addresses[2 * at] = this.#library.kernelAddress(name);
      numbers[2 * at + 1] = offset;
      new Uint8Array(memory).set(new Uint8Array(params), offset);
      offset += params.byteLength;
    });
    return { memory, count: calls.length };
  }
}
