import type { InstanceNumber, InstanceRole, PoolInstance } from "./decision.ts";
import { DecodeBooks } from "./decode-books.ts";
import { PrefillBooks } from "./prefill-books.ts";
import { PromptRun } from "./prompt-run.ts";

/** An instance with what it has been given. */
export class Instance {
  readonly number: InstanceNumber;
  readonly id: string;
  /** Whose speeds its own are taken for. */
  kind: string;
  readonly kvTokens: number;
  networkBytesPerMs: number;
  role: InstanceRole;
  /** It gets nothing new: it leaves, or its role changes. */
  draining = false;
  readonly prefill = new PrefillBooks();
  readonly decode = new DecodeBooks();
  /** Its last prompts, for the estimator. */
  readonly run = new PromptRun();
  /** Transfers that it takes part in now. */
  sends = 0;
  receives = 0;

  constructor(number: InstanceNumber, info: PoolInstance) {
    this.number = number;
    this.id = info.id;
    this.kind = info.kind ?? "";
    this.kvTokens = info.kvTokens;
    this.networkBytesPerMs = info.networkBytesPerMs;
    this.role = info.role;
  }
}

/** What is counted of one instance. */
export interface InstanceBooks {
  readonly queuedPrompts: number;
  readonly queueMs: number;
  readonly decoding: number;
  readonly coming: number;
  /** Of context, of those that decode. */
  readonly decodingTokens: number;
  /** Of context, of both. */
  readonly tokens: number;
  readonly sends: number;
  readonly receives: number;
}

export function instanceBooks(found: Instance, nowMs: number): InstanceBooks {
  const { prefill, decode, sends, receives } = found;
  return {
    ...{ queuedPrompts: prefill.count, queueMs: prefill.queueMs(nowMs) },
    ...{ decoding: decode.decoding, coming: decode.coming, tokens: decode.tokens },
    decodingTokens: decode.decodingTokens,
    ...{ sends, receives },
  };
}

/** Instances by number and by what they do. */
export class InstanceTable {
  readonly #instances: (Instance | null)[] = [];
  #prefilling: readonly Instance[] = [];
  #decoding: readonly Instance[] = [];

  /** Those that may get prompts, and those that may get decodings, in the order of numbers. */
  get prefilling(): readonly Instance[] {
    return this.#prefilling;
  }

  get decoding(): readonly Instance[] {
    return this.#decoding;
  }

  /** Of those that may get decodings: requests that decode. */
  get decodingRequests(): number {
    let sum = 0;
    for (const { decode } of this.#decoding) sum += decode.decoding;
    return sum;
  }

  /** Their tokens of context. */
  get decodingTokens(): number {
    let sum = 0;
    for (const { decode } of this.#decoding) sum += decode.decodingTokens;
    return sum;
  }

  /** Numbers are below this. */
  get size(): number {
    return this.#instances.length;
  }

  join(info: PoolInstance): Instance {
    const free = this.#instances.indexOf(null);
    const number = free < 0 ? this.#instances.length : free;
    const instance = new Instance(number, info);
    this.#instances[number] = instance;
    this.#sort();
    return instance;
  }

  leave(number: InstanceNumber): void {
    const instance = this.find(number);
    if (instance === null) return;
    instance.draining = true;
    this.#instances[number] = null;
    this.#sort();
  }

  /** Null: it left. */
  find(number: InstanceNumber): Instance | null {
    return this.#instances[number] ?? null;
  }

  setRole(number: InstanceNumber, role: InstanceRole, kind?: string): void {
    const instance = this.find(number);
    if (instance === null) return;
    instance.kind = kind ?? instance.kind;
    instance.role = role;
    this.#sort();
  }

  #sort(): void {
    const here = this.#instances.filter((instance) => instance !== null);
    const doing = (role: InstanceRole) =>
      here.filter((instance) => instance.role === role || instance.role === "both");
    this.#prefilling = doing("prefill");
    this.#decoding = doing("decode");
  }
}
