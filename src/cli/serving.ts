/** A model served until a signal comes: what `serve` and `worker` have in common. */
import { type Command, Option } from "commander";
import type { EngineError } from "#base";
import type { LLM, LoadOptions, SpeculationInfo } from "#engine";
import {
  type RunningServer,
  reserveServer,
  type ServerExtension,
  ServerOptions,
  type WorkerIdentity,
} from "#server";
import { ADMIN_KEY_FILE_HELP, API_KEY_FILE_HELP, readAdminKeys, readApiKeys } from "./api-keys.ts";
import { cacheSizes, flushText, sizesText } from "./cache-sizes.ts";
import { addEngineFlags, type LoadRequest, loadModel } from "./engine-flags.ts";
import { SchemaFlags } from "./flags.ts";
import { giveFreedMemoryBack } from "./freed-memory.ts";
import { type Announce, type StartLines, startLines } from "./start-lines.ts";
import { untilStopped } from "./until-stopped.ts";

const serverFlags = new SchemaFlags(ServerOptions, {
  rename: {
    "defaultSampling.temperature": "default-temperature",
    "defaultSampling.topP": "default-top-p",
    "defaultSampling.topK": "default-top-k",
    "defaultSampling.minP": "default-min-p",
    "defaultSampling.repetitionPenalty": "default-repetition-penalty",
    "defaultSampling.maxTokens": "default-max-tokens",
  },
  help: {
    apiKey:
      "API key that clients must send as bearer token; may be repeated. Other users of the " +
      "machine see it in the list of processes, unlike a file or an environment variable. " +
      "(default: no key is needed)",
    adminKey:
      "Key that also shows texts of prompts on the page at /; may be repeated. Other users of " +
      "the machine see it in the list of processes, unlike a file. (default: no key does)",
    kvEventsZmq:
      "Publish KV events for routers of vLLM workers: tcp://*:5557 listens for subscribers, " +
      "tcp://host:5557 connects to one that listens; needs the package zeromq. Hashes are " +
      "vLLM's only with --hash-algorithm sha256_cbor.",
  },
});

const SERVER_HEADING = "Server:";

/** A command line of a command that serves a model. */
export interface ServeFlags extends Readonly<Record<string, unknown>> {
  readonly apiKeyFile?: string;
  readonly adminKeyFile?: string;
}

/** A server's part in a fleet. */
export interface FleetRole {
  /** Accepted like API keys. */
  readonly secrets: readonly string[];
  /** How its keys and values travel; null: they do not. */
  readonly kvTransfer: LoadOptions["kvTransfer"];
  /** Who a server is that listens at `url`. */
  identify(url: string): WorkerIdentity;
  /** The model is served from now on. Returns what is to be done when it is not any more. */
  join(served: JoiningServer, lines: StartLines): Promise<Departure>;
}

/** A server that joins a fleet. */
export interface JoiningServer {
  readonly server: RunningServer;
  /** Of its cache. */
  readonly kvEvents: LLM["kvEvents"];
}

/** The end of a server's part in a fleet. */
export interface Departure {
  /** It will take no more requests. Settles when the fleet was told. */
  drain(): Promise<void>;
  /** Its last request has ended. */
  leave(): Promise<void>;
}

/** Most time at the start that measuring drafts takes: a server runs for long. */
const MEASURE_MS = 2000;

const ALONE: Departure = { drain: async () => {}, leave: async () => {} };

/** The flags of server, model and engine. */
export function addServeFlags(command: Command): void {
  serverFlags.addTo(command, SERVER_HEADING);
  const keyFile = new Option("--api-key-file <file>", API_KEY_FILE_HELP);
  const adminFile = new Option("--admin-key-file <file>", ADMIN_KEY_FILE_HELP);
  command.addOption(keyFile.helpGroup(SERVER_HEADING));
  command.addOption(adminFile.helpGroup(SERVER_HEADING));
  addEngineFlags(command, MEASURE_MS);
}

/** What is served beside the model's own endpoints. */
export interface ServedBeside extends AsyncDisposable {
  /** Adds it to a server of the model. */
  extend(llm: LLM): Promise<ServerExtension & AsyncDisposable>;
}

/** What one command does that others do not. */
export interface ServingParts {
  /** The server's part in a fleet. Default: none. */
  readonly readRole?: (lines: StartLines) => Promise<FleetRole | null>;
  /** Makes the model. Default: from its weights. */
  readonly load?: LoadRequest["load"];
  /** Opened before the model is loaded. Default: nothing. */
  readonly openBeside?: (lines: StartLines) => Promise<ServedBeside | null>;
}

/** Loads a model and serves it until a signal comes; as a worker of a fleet where it has a role. */
export async function serveModel(
  model: string | undefined,
  flags: ServeFlags,
  { readRole, load, openBeside }: ServingParts = {},
): Promise<void> {
  serverFlags.check(flags);
  giveFreedMemoryBack(process.env);
  const options: ServerOptions = serverFlags.collect(flags);
  const servedName = options.servedModelName?.[0];
  const lines = startLines();
  const role = (await readRole?.(lines)) ?? null;
  const keys = await readApiKeys({
    ...{ flags: options.apiKey ?? [], file: flags.apiKeyFile },
    ...{ environment: process.env, warn: lines.warn },
  });
  const apiKey = [...keys, ...(role?.secrets ?? [])];
  const adminKey = await readAdminKeys(options.adminKey ?? [], flags.adminKeyFile, lines.warn);
  // First of all, so that a port in use is detected before a model is loaded.
  await using reserved = await reserveServer({ ...options, apiKey, adminKey });
  await using beside = (await openBeside?.(lines)) ?? null;
  await using llm = await loadModel({
    ...{ model, values: flags, draftsMs: MEASURE_MS },
    ...(servedName === undefined ? {} : { servedName }),
    ...{ warn: lines.warn, say: lines.say, kvTransfer: role?.kvTransfer ?? null },
    ...(load === undefined ? {} : { load }),
  });
  const defaultSampling = { ...llm.defaultSampling, ...options.defaultSampling };
  const worker = role?.identify(reserved.url);
  await using extension = (await beside?.extend(llm)) ?? null;
  const server = await reserved.serve(llm, {
    ...{ defaultSampling, ...(worker === undefined ? {} : { worker }) },
    ...{ fleetSecrets: role?.secrets ?? [], extension },
  });
  announce(llm, server, lines.say);
  llm.listen({ onFlushed: (flush) => lines.say(flushText(flush), { flush }) });
  const departure = (await role?.join({ server, kvEvents: llm.kvEvents }, lines)) ?? ALONE;
  const close = async () => {
    await departure.drain();
    await server.close();
    await departure.leave();
  };
  await Promise.race([untilStopped(close, lines.say), untilDead(llm, close)]);
}

/** Announces the model, its device, the address and the cache sizes. */
function announce(llm: LLM, { url, kvEvents }: RunningServer, say: Announce): void {
  const { info } = llm;
  say(`running on ${info.device}`, { device: info.device });
  const sizes = cacheSizes(info, llm.stats().cache);
  if (sizes.length > 0) say(`KV cache: ${sizesText(sizes)}`);
  const { speculative } = info;
  if (speculative !== null) say(`drafts: ${draftText(speculative)}`, { speculative });
  const { kvAddress } = info;
  if (kvAddress !== null) say(`KV transfer at ${kvAddress.host}:${kvAddress.port}`);
  if (kvEvents !== null) say(`KV events over ZeroMQ: ${kvEvents}`);
  say(`serving ${info.name} at ${url} (process ${process.pid})`, { model: info.name, url });
}

function draftText({ kind, mixed, lengthMax, width, drafter }: SpeculationInfo): string {
  const continuations = width === 1 ? "one continuation" : `${width} continuations`;
  const size = drafter === null ? "" : ` (${(drafter.parameters / 1e6).toFixed(1)} M parameters)`;
  const beside = mixed ? " beside lookup" : "";
  return `by ${kind}${size}${beside}, ${continuations} of up to ${lengthMax} tokens in a step`;
}

/** Ends the server when its engine is dead, so that a process supervisor restarts it. */
async function untilDead(llm: LLM, close: () => Promise<void>): Promise<never> {
  const error = await new Promise<EngineError>((resolve) => llm.listen({ onDead: resolve }));
  await close();
  throw error;
}
