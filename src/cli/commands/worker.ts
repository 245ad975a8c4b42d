import { randomUUID } from "node:crypto";
import { hostname } from "node:os";
import { type Command, Option } from "commander";
import { EngineError } from "#base";
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
import { type PemPair, readPem, readPemPair } from "../pem-files.ts";
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

/** Files beside the settings. */
const FILES: readonly (readonly [string, string])[] = [
  [
    "--cluster-secret-file <file>",
    "File with the secret that routers send to workers; of several lines all are accepted.",
  ],
  [
    "--kv-transfer-tls-cert <file>",
    "Certificate (PEM) of this worker: keys and values go to and from workers with TLS alone.",
  ],
  ["--kv-transfer-tls-key <file>", "Key (PEM) of --kv-transfer-tls-cert."],
  [
    "--kv-transfer-tls-ca <file>",
    "Certificates (PEM) of the authorities of workers, which then all must show one; none: " +
      "those that Node.js knows, and workers that ask need not show one.",
  ],
];

interface WorkerFlags extends ServeFlags {
  readonly clusterSecretFile?: string;
  readonly kvTransferTlsCert?: string;
  readonly kvTransferTlsKey?: string;
  readonly kvTransferTlsCa?: string;
}

/** `perigee worker`. */
export function defineWorker(command: Command): void {
  command.action(async (model: string | undefined, flags: WorkerFlags) => {
    workerFlags.check(flags);
    const start = async (own: WorkerFlags, load?: LoadRequest["load"]) =>
      serveModel(model, own, {
        readRole: ({ warn }) => readRole(own, warn),
        ...(load === undefined ? {} : { load }),
      });
    const mocks = readMocks(flags);
    if (mocks === null) return await start(flags);
    // Each listens to signals.
    process.setMaxListeners(process.getMaxListeners() + mocks.length);
    await Promise.all(mocks.map(({ values, load }) => start({ ...flags, ...values }, load)));
  });
  workerFlags.addTo(command, FLEET_HEADING);
  addMockFlags(command);
  for (const [flag, help] of FILES) {
    command.addOption(new Option(flag, help).helpGroup(FLEET_HEADING));
  }
  addServeFlags(command);
}

async function readRole(flags: WorkerFlags, warn: (text: string) => void): Promise<FleetRole> {
  const config = WorkerOptions.parse(workerFlags.collect(flags));
  const redis = config.redis ?? process.env[REDIS_VARIABLE] ?? null;
  const secrets = await readClusterSecrets(flags.clusterSecretFile, warn);
  const tls = await readTransferTls(flags);
  if (tls !== null && config.kvTransferNixl !== null) {
    const problem = "--kv-transfer-tls-cert cannot be combined with --kv-transfer-nixl";
    throw new EngineError(
      "INVALID_ARGUMENT",
      `Cannot use ${problem}, whose network encrypts nothing; leave one of them out`,
      { param: "--kv-transfer-nixl" },
    );
  }
  return roleOf({ ...config, redis }, { secrets, tls });
}

/** What is encrypted between workers, by which certificates; null: nothing. */
async function readTransferTls(flags: WorkerFlags): Promise<TransferTls | null> {
  const pair = await readPemPair(
    { flag: "--kv-transfer-tls-cert", file: flags.kvTransferTlsCert },
    { flag: "--kv-transfer-tls-key", file: flags.kvTransferTlsKey },
  );
  const ca = await readPem(flags.kvTransferTlsCa);
  if (pair !== null) return { ...pair, ca };
  if (ca === null) return null;
  throw new EngineError(
    "INVALID_ARGUMENT",
    "Cannot use --kv-transfer-tls-ca: needs --kv-transfer-tls-cert and --kv-transfer-tls-key, " +
      "both are missing",
    { param: "--kv-transfer-tls-cert" },
  );
}

type TransferTls = PemPair & { readonly ca: string | null };

function roleOf(
  config: WorkerConfig,
  { secrets, tls }: { readonly secrets: readonly string[]; readonly tls: TransferTls | null },
): FleetRole {
  const advertised = config.advertise === null ? null : readUrl(config.advertise);
  const { role, kvTransferHost: host = null, kvTransferPort: port, kvTransferPath: path } = config;
  const { kvTransferNixl: nixl } = config;
  const travels = config.kvTransfer ?? role !== "both";
  return {
    secrets,
    kvTransfer: travels
      ? {
          ...(host !== null && { host }),
          ...{ port, path, nixl, tls, secrets: [...secrets], memoryAlone: role === "kv" },
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
