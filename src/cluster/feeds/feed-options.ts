import { systemHttp, type WorkerHttp } from "#cluster/http";
import type { RedisStreams } from "./redis-streams.ts";

/** What a feed must know beside its worker. All of it has defaults. */
export interface FeedOptions {
  /** Sent as `Authorization: Bearer …` to the worker; null: nothing. */
  readonly apiKey?: string | null;
  /** What asks the worker: it knows the authorities of https ones. Default: the system's alone. */
  readonly http?: WorkerHttp;
  /** Shortest and longest wait between tries, in milliseconds. Default: 250 and 10,000. */
  readonly retryMs?: readonly [shortest: number, longest: number];
  /** A connection that is silent for so long is given up. Default: 60,000 ms. */
  readonly silenceMs?: number;
  /** Largest message that is read, in bytes. Default: 64 MiB. */
  readonly messageBytesMax?: number;
  /** Where workers of our own keep their events; null: they are read over HTTP. Default: null. */
  readonly redis?: RedisStreams | null;
}

/** The options with defaults filled in. */
export type FeedSettings = Required<Omit<FeedOptions, "redis">>;

const MESSAGE_BYTES_MAX = 2 ** 26;

export function feedSettings(options: FeedOptions): FeedSettings {
  return {
    apiKey: options.apiKey ?? null,
    http: options.http ?? systemHttp(),
    retryMs: options.retryMs ?? [250, 10_000],
    silenceMs: options.silenceMs ?? 60_000,
    messageBytesMax: options.messageBytesMax ?? MESSAGE_BYTES_MAX,
  };
}
