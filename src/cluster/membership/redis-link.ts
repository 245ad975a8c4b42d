import type { Redis } from "ioredis";
import { messageOf } from "#base";
import { type RedisAddress, readRedisAddress } from "#cluster/redis";

const CONNECT_MS = 2000;
const COMMAND_MS = 1000;
const RETRY_MS_MIN = 100;
const RETRY_MS_MAX = 1000;

/** What a link is opened with. */
export interface RedisLinkOptions {
  /** As `readRedisAddress` reads it. */
  readonly url: string;
  /** Receives a line when Redis goes away, and one when it is back. Never has the password. */
  readonly warn: (message: string) => void;
  /** Longest wait between two tries to connect. Default: 1 s. */
  readonly retryMsMax?: number;
}

/**
 * A connection to Redis that is opened again whenever it breaks. Commands fail at once while it is
 * broken, and within a second where Redis is silent: no request waits for it.
 */
export class RedisLink {
  /** For commands. */
  readonly client: Redis;
  /** Hosts and ports, for messages. */
  readonly place: string;
  readonly #warn: (message: string) => void;
  readonly #onReady = new Set<() => void>();
  readonly #others: Redis[] = [];
  /** Why it is away, as it was said last; null: it answers. */
  #trouble: string | null = null;
  #closed = false;
  #replacing = false;

  /** Throws INVALID_ARGUMENT for an address that is none of Redis. */
  constructor({ url, warn, retryMsMax = RETRY_MS_MAX }: RedisLinkOptions) {
    this.#warn = warn;
    const address = readRedisAddress(url);
    this.place = address.place;
    this.client = this.#open(address, retryMsMax);
    this.client.on("ready", () => this.#ready());
  }

  /** Whether commands can be sent now. */
  get isReady(): boolean {
    return this.client.status === "ready";
  }

  /** Called for each connection from now on. */
  onReady(listener: () => void): void {
    this.#onReady.add(listener);
    if (this.isReady) listener();
  }

  /** One more connection, for subscriptions; closed with the link. */
  subscriber(): Redis {
    const client = this.client.duplicate({
      enableOfflineQueue: true,
      // Subscribed anew at each connection: the library would leave a failure unhandled.
      autoResubscribe: false,
    });
    client.on("error", () => {}); // The link's own connection has the same trouble, and says it.
    this.#others.push(client);
    return client;
  }

  /** A command failed: a silent connection is replaced, and the reason said once. */
  failed(error: unknown): void {
    const text = messageOf(error);
    this.#say(text);
    if (!/timed out/.test(text) || this.#closed || this.#replacing) return;
    this.#replacing = true; // Until it is closed: many commands time out together.
    this.client.once("close", () => {
      this.#replacing = false;
    });
    this.client.disconnect(true);
  }

  close(): void {
    this.#closed = true;
    for (const client of [...this.#others, this.client]) client.disconnect();
  }

  #open({ open, isNoTrouble }: RedisAddress, retryMsMax: number): Redis {
    const client = open({
      connectTimeout: CONNECT_MS,
      commandTimeout: COMMAND_MS,
      enableOfflineQueue: false,
      maxRetriesPerRequest: 0,
      retryStrategy: (times) => Math.min(retryMsMax, RETRY_MS_MIN * 2 ** Math.min(times, 10)),
    });
    client.on("error", (error) => {
      if (!isNoTrouble(messageOf(error))) this.#say(messageOf(error));
    });
    return client;
  }

  #ready(): void {
    if (this.#trouble !== null) this.#warn(`Redis at ${this.place} answers again`);
    this.#trouble = null;
    for (const listener of this.#onReady) listener();
  }

  #say(reason: string): void {
    const trouble = troubleOf(reason);
    if (this.#closed || this.#trouble === trouble) return;
    // Commands that fail meanwhile know less than the connection does.
    if (this.#trouble !== null && trouble === "away") return;
    this.#trouble = trouble;
    this.#warn(
      `Cannot use Redis at ${this.place}: it must answer, current state is ${this.#trouble}; ` +
        "what is known stays, trying again",
    );
  }
}

/** The same trouble has many texts. */
function troubleOf(reason: string): string {
  if (/WRONGPASS|NOAUTH|invalid password|no password is set/i.test(reason)) {
    return "a refused password";
  }
  if (/NOPERM/.test(reason)) return `a refused command (${reason.slice(0, 200)})`;
  if (/timed out|ETIMEDOUT/i.test(reason)) return "silent";
  if (/LOADING/.test(reason)) return "loading its data";
  if (/READONLY/.test(reason)) return "a replica that takes no writes";
  if (/NOREPLICAS/.test(reason)) return "a master without its replicas";
  if (/^All sentinels are unreachable/.test(reason)) {
    const isAnswered = /No such master/.test(reason) || !reason.includes("Last error");
    return isAnswered ? "a master that no sentinel knows" : "no sentinel that answers";
  }
  const code = /\b(ECONNREFUSED|ECONNRESET|ENOTFOUND|EHOSTUNREACH|EPIPE|EAI_AGAIN)\b/.exec(reason);
  if (code !== null) return code[0];
  if (/Stream isn't writeable|Connection is closed|max retries/i.test(reason)) return "away";
  return reason.slice(0, 200);
}
