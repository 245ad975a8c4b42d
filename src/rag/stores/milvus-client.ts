/** The connection to a Milvus server: calls with a deadline, answers checked, failures told. */
import { setTimeout as sleep } from "node:timers/promises";
import { EngineError } from "#base";
import type { Consistency, MilvusAddress } from "./milvus-address.ts";
import { isDisconnected, MilvusRefusal, type MilvusStatus, milvusError } from "./milvus-errors.ts";

/** The official client, where it is installed. */
export type Sdk = typeof import("@zilliz/milvus2-sdk-node");
export type SdkClient = InstanceType<Sdk["MilvusClient"]>;
type SdkConsistency = Sdk["ConsistencyLevelEnum"][Consistency];

/** What a server is and can do. */
export interface MilvusFeatures {
  readonly version: string;
  /** The embedded server in Python. */
  readonly isLite: boolean;
  /** It makes sparse vectors of texts, and weighs words by BM25. */
  readonly hasBm25: boolean;
  /** It compares attributes with lists. */
  readonly hasLists: boolean;
}

/** The first version with BM25. */
const BM25_VERSION = [2, 5] as const;
/** A connection that was lost is tried again this soon, so that a call made again succeeds. */
const RECONNECT_MS = 100;
const RECONNECT_MS_MAX = 500;
/** By then a connection is tried again: stores of one address share how long that waits. */
const AGAIN_AFTER_MS = 700;
const KEEPALIVE_MS = 300_000;
/** Large collections are read from an object store. */
const LOAD_MS_MAX = 600_000;
const LOAD_STEP_MS = 100;
const LOADED = "LoadStateLoaded";

export class MilvusConnection {
  readonly address: MilvusAddress;
  readonly features: MilvusFeatures;
  /** Of all reads, as the client names it. */
  readonly consistency: SdkConsistency;
  readonly #client: SdkClient;

  private constructor(
    address: MilvusAddress,
    client: SdkClient,
    { features, sdk }: { readonly features: MilvusFeatures; readonly sdk: Sdk },
  ) {
    this.address = address;
    this.#client = client;
    this.features = features;
    this.consistency = sdk.ConsistencyLevelEnum[address.consistency];
  }

  /** Throws STORE_UNAVAILABLE where the server does not answer or refuses. */
  static async open(address: MilvusAddress, load: () => Promise<Sdk>): Promise<MilvusConnection> {
    const sdk = await loaded(load);
    try {
      return await MilvusConnection.#connected(address, sdk);
    } catch (error) {
      if (!(error instanceof EngineError && isDisconnected(error.cause))) throw error;
      await sleep(AGAIN_AFTER_MS);
      return MilvusConnection.#connected(address, sdk);
    }
  }

  static async #connected(address: MilvusAddress, sdk: Sdk): Promise<MilvusConnection> {
    const client = clientOf(sdk, address);
    try {
      await client.connectPromise;
      const { version } = checked(await client.getVersion());
      const connection = new MilvusConnection(address, client, {
        features: featuresOf(version ?? ""),
        sdk,
      });
      // A wrong user or database is not told before the first call that needs it.
      await connection.call("open the store", (sdkClient) => sdkClient.listCollections());
      return connection;
    } catch (error) {
      await closed(client);
      throw milvusError("open the store", address.location, error);
    }
  }

  /** The answer of a call, which is a success. `fails` may turn another answer into an error. */
  async call<Answer extends object>(
    action: string,
    run: (client: SdkClient) => Promise<Answer>,
    fails: (thrown: unknown) => Promise<void> = async () => {},
  ): Promise<Answer> {
    try {
      return checked(await this.#twice(run));
    } catch (error) {
      await fails(error);
      throw milvusError(action, this.address.location, error);
    }
  }

  /** Has a collection in the server's memory, as searches need it. */
  async load(collection: string): Promise<void> {
    const target = { collection_name: collection };
    const action = "load a collection";
    const state = async () => (await this.call(action, (one) => one.getLoadState(target))).state;
    if ((await state()) === LOADED) return;
    await this.call(action, (client) => client.loadCollection(target));
    for (let waitedMs = 0; (await state()) !== LOADED; waitedMs += LOAD_STEP_MS) {
      if (waitedMs > LOAD_MS_MAX) throw milvusError(action, this.address.location, "timeout");
      await sleep(LOAD_STEP_MS);
    }
  }

  /** All calls may be made again: a connection that was lost while idle is not told. */
  async #twice<Answer>(run: (client: SdkClient) => Promise<Answer>): Promise<Answer> {
    try {
      return await run(this.#client);
    } catch (error) {
      if (!isDisconnected(error)) throw error;
      await sleep(AGAIN_AFTER_MS);
      return run(this.#client);
    }
  }

  async close(): Promise<void> {
    await closed(this.#client);
  }
}

async function loaded(load: () => Promise<Sdk>): Promise<Sdk> {
  try {
    return await load();
  } catch (error) {
    throw new EngineError(
      "STORE_UNAVAILABLE",
      "Cannot open the store: the package @zilliz/milvus2-sdk-node must be installed, current " +
        "value is none; npm i @zilliz/milvus2-sdk-node@3.0.6",
      { cause: error },
    );
  }
}

function clientOf(sdk: Sdk, address: MilvusAddress): SdkClient {
  const { user, password, token, database, authorityPath, serverName } = address;
  return new sdk.MilvusClient({
    address: address.address,
    ssl: address.hasTls,
    // Of all calls but writes, which wait for a day unless each is told.
    timeout: address.timeoutMs,
    // Its retries of calls that got no answer never end.
    maxRetries: 0,
    // What it would write about every failed call is in our errors.
    logLevel: "error",
    telemetry: { enabled: false },
    channelOptions: {
      // The deadline of a call tells that a server is gone; many servers refuse frequent pings.
      "grpc.keepalive_permit_without_calls": 0,
      "grpc.keepalive_time_ms": KEEPALIVE_MS,
      "grpc.initial_reconnect_backoff_ms": RECONNECT_MS,
      "grpc.min_reconnect_backoff_ms": RECONNECT_MS,
      "grpc.max_reconnect_backoff_ms": RECONNECT_MS_MAX,
    },
    ...(user === null ? {} : { username: user, password: password ?? "" }),
    ...(token === null ? {} : { token }),
    ...(database === null ? {} : { database }),
    ...(authorityPath === null && serverName === null
      ? {}
      : {
          tls: {
            ...(authorityPath === null ? {} : { rootCertPath: authorityPath }),
            ...(serverName === null ? {} : { serverName }),
          },
        }),
  });
}

/** Throws where an answer says anything but success; some calls answer with the status alone. */
function checked<Answer extends object>(answer: Answer): Answer {
  const status = ("status" in answer ? answer.status : answer) as MilvusStatus | null;
  const code = status?.code ?? null;
  if (code !== 0) throw new MilvusRefusal({ ...status });
  return answer;
}

function featuresOf(version: string): MilvusFeatures {
  const isLite = /lite/i.test(version);
  const [, major, minor] = /(\d+)\.(\d+)/.exec(version) ?? [];
  const isOld =
    major !== undefined &&
    (Number(major) < BM25_VERSION[0] ||
      (Number(major) === BM25_VERSION[0] && Number(minor) < BM25_VERSION[1]));
  return { version: version || "unknown", isLite, hasBm25: isLite || !isOld, hasLists: !isLite };
}

async function closed(client: SdkClient): Promise<void> {
  try {
    await client.closeConnection();
  } catch {
    // A connection that never was cannot be closed.
  }
}
