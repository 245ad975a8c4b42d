import { randomUUID } from "node:crypto";
import { hostname } from "node:os";
import { type Command, Option } from "commander";
import {
  RedisAnnouncer,
  RedisLink,
  RedisPublisher,
  readUrl,
  readWorkerReport,
  streamKey,
  type WorkerConfig,
  type WorkerInfo,
  WorkerOptions,
  workerScope,
} from "#cluster";
import type { WorkerIdentity } from "#server";
import { readClusterSecrets } from "../api-keys.ts";
import type { LoadRequest } from "../engine-flags.ts";
import { SchemaFlags } from "../flags.ts";
import { addMockFlags, readMocks } from "../mock-flags.ts";
import {
  addServeFlags,
  type Departure,
  type FleetRole,
  type JoiningServer,
  type ServeFlags,
  serveModel,
} from "../serving.ts";

const FLEET_HEADING = "Fleet:";
const REDIS_VARIABLE = "PERIGEE_REDIS";
/** Routers that were told of the end still send what they decided before. */
const LAST_REQUESTS_MS = 200;
/** Longest wait between two tries to reach Redis. */
const RETRY_MS_MAX = 2000;
/** Addresses that stand for all of a machine: no router can call them. */
const ANY_HOST = new Set(["0.0.0.0", "[::]"]);

const workerFlags = new SchemaFlags(WorkerOptions);

interface WorkerFlags extends ServeFlags {
  readonly clusterSecretFile?: string;
}

/** `perigee worker`. */
export function defineWorker(command: Command): void {
  command.action(async (model: string | undefined, flags: WorkerFlags) => {
    workerFlags.check(flags);
    const start = async (own: WorkerFlags, load?: LoadRequest["load"]) =>
      serveModel(model, own, ({ warn }) => readRole(own, warn), load);
    const mocks = readMocks(flags);
    if (mocks === null) return await start(flags);
    // Each listens to signals.
    process.setMaxListeners(process.getMaxListeners() + mocks.length);
    await Promise.all(mocks.map(({ values, load }) => start({ ...flags, ...values }, load)));
  });
  workerFlags.addTo(command, FLEET_HEADING);
  addMockFlags(command);
  const secretFile = new Option(
    "--cluster-secret-file <file>",
    "File with the secret that routers send to workers; of several lines all are accepted.",
  );
  command.addOption(secretFile.helpGroup(FLEET_HEADING));
  addServeFlags(command);
}

async function readRole(flags: WorkerFlags, warn: (text: string) => void): Promise<FleetRole> {
  const config = WorkerOptions.parse(workerFlags.collect(flags));
  const redis = config.redis ?? process.env[REDIS_VARIABLE] ?? null;
  const secrets = await readClusterSecrets(flags.clusterSecretFile, warn);
  return roleOf({ ...config, redis }, secrets);
}

function roleOf(config: WorkerConfig, secrets: readonly string[]): FleetRole {
  const advertised = config.advertise === null ? null : readUrl(config.advertise);
  const { role, kvTransferHost: host = null, kvTransferPort: port, kvTransferPath: path } = config;
  const { kvTransferNixl: nixl } = config;
  const travels = config.kvTransfer ?? role !== "both";
  return {
    secrets,
    kvTransfer: travels
      ? {
          ...(host !== null && { host }),
          ...{ port, path, nixl, secrets: [...secrets], memoryAlone: role === "kv" },
        }
      : null,
    identify: (listening): WorkerIdentity => {
      const url = advertised ?? reachable(listening);
      const pinned = config.rolePinned ? { rolePinned: true } : {};
      return { id: config.workerId ?? url, epoch: randomUUID(), url, role, ...pinned };
    },
    join: async (served, { say, warn }): Promise<Departure> => {
      const { redis, leaseMs } = config;
      if (redis === null) return nobodyTold();
      const { info } = readWorkerReport(served.server.report());
      // Routers wait for one lease: an entry must be written again before it ends.
      const retryMsMax = Math.min(RETRY_MS_MAX, config.leaseMs / 4);
      const link = new RedisLink({ url: redis, warn, retryMsMax });
      const { announced, publisher } = publishing(info, served, { redis, warn });
      const announcer = new RedisAnnouncer(announced, { link, leaseMs, warn });
      served.server.onRole(() => {
        const { role: now, roleEpoch } = served.server.report();
        announcer.roleChanged({ role: now, roleEpoch });
      });
      const name = info.id === info.url ? "" : ` as ${info.id}`;
      say(`announcing ${info.url}${name} in Redis at ${link.place}`);
      return {
        drain: async () => {
          await announcer.drain();
          await new Promise((resolve) => setTimeout(resolve, LAST_REQUESTS_MS));
        },
        leave: async () => {
          await announcer.leave();
          await publisher?.close();
        },
      };
    },
  };
}

/** Publishes the events of a cache that announces them, and says where in what is announced. */
function publishing(
  info: WorkerInfo,
  { kvEvents }: JoiningServer,
  { redis, warn }: { readonly redis: string; readonly warn: (text: string) => void },
): { readonly announced: WorkerInfo; readonly publisher: RedisPublisher | null } {
  const { kv, id, epoch } = info;
  if (kv === null) return { announced: info, publisher: null };
  const key = streamKey(id, epoch);
  const scope = workerScope(info);
  const publisher = new RedisPublisher(kvEvents, { url: redis, key, scope, warn });
  return { announced: { ...info, kv: { ...kv, stream: key } }, publisher };
}

/** Routers that have the worker's address see its state when they ask for it. */
function nobodyTold(): Departure {
  return { drain: async () => {}, leave: async () => {} };
}

/** `http://0.0.0.0:8000` with the name of this machine. */
function reachable(listening: string): string {
  const url = new URL(listening);
  if (ANY_HOST.has(url.hostname)) url.hostname = hostname();
  return readUrl(url.href);
}
