/** What a relay is made of and what it answers. */
import type { ServerResponse } from "node:http";
import type { EngineError } from "#base";
import type { Dispatcher, DispatchRequest, Routed } from "#cluster/routing";
import type { StreamForm } from "#server";
import type { AttemptLimits, WorkerAnswer } from "./attempt.ts";
import type { GenerationRequest } from "./generation-request.ts";
import type { HitWatch } from "./hit-watch.ts";
import type { ModelCodecs } from "./model-codecs.ts";
import type { NativeRelay } from "./native-relay.ts";
import type { TokenOrigin } from "./prompt-reader.ts";
import type { EndWatch } from "./prompt-usage.ts";
import type { RelayMetrics } from "./relay-metrics.ts";
import type { RoleNews } from "./role-news.ts";
import type { SharedLoads, SharedPart } from "./shared-loads.ts";
import type { Sweep } from "./sweep.ts";
import type { WaitingRoom } from "./waiting-room.ts";
import type { WorkerLink } from "./worker-link.ts";
import type { WorkerLinks } from "./worker-links.ts";

/** What all relays share. */
export interface RelayTools {
  readonly dispatcher: Dispatcher;
  readonly links: WorkerLinks;
  readonly sweep: Sweep;
  /** Null: JavaScript relays everything. */
  readonly native: NativeRelay | null;
  readonly metrics: RelayMetrics;
  readonly limits: AttemptLimits & {
    readonly retriesMax: number;
    readonly migrationsMax: number;
    readonly streamKeepAliveMs: number;
    readonly queueTimeoutMs: number;
  };
  readonly codecs: Pick<ModelCodecs, "agrees">;
  readonly hits: HitWatch;
  readonly room: WaitingRoom;
  readonly roles: RoleNews;
  /** Null: this router is alone. */
  readonly shared: SharedLoads | null;
  readonly showWorker: boolean;
  /** One line for operators. */
  readonly warn: (message: string, fields?: object) => void;
}

/** One request. */
export interface RelayOrder {
  readonly request: GenerationRequest;
  /** What the dispatcher reads; `excluded` is the relay's. */
  readonly query: Omit<DispatchRequest, "excluded">;
  /** Workers that cannot answer it. */
  readonly excluded: ReadonlySet<string>;
  /** The client's API key; "": none. */
  readonly key: string;
  readonly origin: TokenOrigin;
  /** By prompt, where the router knows them. */
  readonly promptTokenIds: readonly (readonly number[])[] | null;
  readonly response: ServerResponse;
  /** Of a stream to the client. */
  readonly form: StreamForm;
  /** Headers that every answer has. */
  readonly headers: Readonly<Record<string, string | number | string[] | undefined>>;
  /** Draws of the request. */
  readonly seed: number;
  /** Unix time in seconds. */
  readonly created: number;
  readonly arrivedMs: number;
}

/** An answer for the caller to send; null: it was streamed, or the client is gone. */
export type RelayAnswer = (WorkerAnswer & { readonly workerId: string }) | null;

/** A worker that gets the request. */
export type Place = Routed & {
  readonly link: WorkerLink;
  readonly endWatch: EndWatch;
  readonly shared: SharedPart | null;
};

/** What the client is told where no worker is left. */
export interface LastFailure {
  readonly error: EngineError;
  /** The worker's own words. */
  readonly answer: RelayAnswer;
}

/** Who got a request, for its log line. */
export interface RelayNotes {
  workerId: string | null;
  attempts: number;
  migrations: number;
  outputTokens: number;
}
