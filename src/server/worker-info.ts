/** What a router reads of a worker: who it is, what it serves, and how much work it has. */
import type { FastifyInstance } from "fastify";
import type { ServerContext } from "./context.ts";
import type { Duty, WorkerRole } from "./duty.ts";
import { ReportFollowers } from "./report-followers.ts";

/** Who a server is in a fleet. */
export interface WorkerIdentity {
  /** Unique in the fleet. */
  readonly id: string;
  /** New for each start of the process. */
  readonly epoch: string;
  /** Where routers reach it, without a slash at the end. */
  readonly url: string;
  /** What it does in a fleet at the start. Default: both. */
  readonly role?: WorkerRole;
  /** No conductor changes it. Default: false. */
  readonly rolePinned?: boolean;
}

/**
 * `WorkerInfo` of #cluster as JSON, with the worker's state and its `WorkerLoad`. Routers that
 * learn of the worker elsewhere than in Redis read it here.
 */
export interface WorkerReport extends Omit<WorkerIdentity, "role">, Duty {
  readonly kind: "perigee";
  readonly version: string;
  readonly models: readonly string[];
  readonly fingerprint: string | null;
  readonly contextTokensMax: number;
  readonly kv: {
    readonly blockTokens: number;
    readonly blocks: readonly number[];
    readonly groupWindows: readonly (number | null)[];
  } | null;
  /** Where other workers of its fingerprint ask for its blocks; null: nowhere. */
  readonly transfer: { readonly host: string; readonly port: number } | null;
  readonly state: "ready" | "draining";
  readonly load: {
    readonly runningRequests: number;
    readonly waitingRequests: number;
    readonly blocksUsed: number;
    readonly uncachedTokens: number;
    /** Tokens whose keys and values came from other workers, and the seconds that they took. */
    readonly fetched?: { readonly tokens: number; readonly seconds: number };
  };
}

/**
 * `GET /worker_info`, on the main thread. With `?follow=on` the answer goes on: a line each second,
 * which is empty where nothing has changed. Where too many follow, it has an end as any other.
 */
export function workerInfoRoute(
  app: FastifyInstance,
  context: ServerContext,
  identity: WorkerIdentity,
): void {
  const followers = new ReportFollowers(() => JSON.stringify(workerReport(context, identity)));
  app.get("/worker_info", async (request, reply) => {
    const isFollowing = request.method === "GET" && follows(request.query);
    if (!isFollowing || !followers.hasRoom) return workerReport(context, identity);
    reply.hijack();
    followers.add(reply.raw, reply.getHeaders());
    return reply;
  });
  // Answers end before their connections are closed: readers see an end, not a failure.
  app.addHook("preClose", async () => followers.close());
}

function follows(query: unknown): boolean {
  const isObject = typeof query === "object" && query !== null;
  return isObject && "follow" in query && query.follow === "on";
}

/** The same data for a caller in this process. */
export function workerReport(context: ServerContext, identity: WorkerIdentity): WorkerReport {
  const { model, modelNames, version, admission } = context;
  const { info } = model;
  const ready = model.health().state === "ready" && !admission.draining;
  return {
    ...identity,
    ...admission.duty,
    kind: "perigee",
    version,
    models: modelNames,
    fingerprint: info.fingerprint,
    contextTokensMax: info.contextTokensMax,
    kv: kvOf(context),
    transfer: transferOf(info.kvAddress, identity.url),
    state: ready ? "ready" : "draining",
    load: loadOf(context),
  };
}

/** All addresses of a machine are none that others can reach: its name is. */
function transferOf(address: WorkerReport["transfer"], url: string): WorkerReport["transfer"] {
  if (address === null || !ANY_HOST.has(address.host)) return address;
  return { host: new URL(url).hostname.replace(/^\[|\]$/g, ""), port: address.port };
}

const ANY_HOST = new Set(["0.0.0.0", "::"]);

/** Null: the cache announces nothing. */
function kvOf({ model }: ServerContext): WorkerReport["kv"] {
  const { info, kvEvents } = model;
  if (!kvEvents.enabled) return null;
  const levels = model.stats().cache?.levels.map(({ total }) => total);
  return {
    blockTokens: info.blockTokens,
    blocks: levels ?? [info.blocks],
    groupWindows: info.groupWindows,
  };
}

function loadOf({ model }: ServerContext): WorkerReport["load"] {
  const { running, waiting, heldBlocks, totalBlocks, uncomputedTokens, cache } = model.stats();
  const { blockTokens, groupWindows } = model.info;
  const { pieces, seconds } = cache?.fetched ?? { pieces: 0, seconds: 0 };
  // A block of so many tokens is a piece for each group of layers.
  const tokens = (pieces / groupWindows.length) * blockTokens;
  return {
    runningRequests: running,
    waitingRequests: waiting,
    blocksUsed: totalBlocks === 0 ? 0 : heldBlocks / totalBlocks,
    uncachedTokens: uncomputedTokens,
    ...(pieces > 0 && { fetched: { tokens, seconds } }),
  };
}
