import { type Command, Option } from "commander";
import { EngineError } from "#base";
import { failureText, RouterOptions, type RouterSecrets, startRouter, systemHttp } from "#cluster";
import { API_KEY_FILE_HELP, readApiKeys, readClusterSecrets, readWorkerKey } from "../api-keys.ts";
import { explanationText } from "../explanation.ts";
import { SchemaFlags } from "../flags.ts";
import { giveFreedMemoryBack } from "../freed-memory.ts";
import { readPem, readPemPair } from "../pem-files.ts";
import { startLines } from "../start-lines.ts";
import { untilStopped } from "../until-stopped.ts";

const HEADING = "Router:";
const REDIS_VARIABLE = "PERIGEE_REDIS";
const EXPLAIN_MS = 10_000;
/** Some KB for each of thousands of workers. */
const EXPLANATION_BYTES_MAX = 64 * 2 ** 20;
/**
 * Memory after 20,000 chats, and processor time of a chat of 1,000 tokens (Intel Xeon with AVX-512
 * and AMX, 2 cores): 265 MiB and 0.98 ms with V8's default, 219 and 1.00 with 200, 207 and 0.93
 * with 150, 188 and 1.06 with 100, 168 and 1.18 with a server's 40.
 */
const HEAP_GROWTH_PERCENT = 150;

const routerFlags = new SchemaFlags(RouterOptions, {
  help: {
    apiKey:
      "API key that clients must send as bearer token; may be repeated. Other users of the " +
      "machine see it in the list of processes, unlike a file or an environment variable. " +
      "(default: no key is needed)",
  },
});

/** Files and words beside the settings. */
const OPTIONS: readonly (readonly [string, string])[] = [
  ["--api-key-file <file>", API_KEY_FILE_HELP],
  [
    "--cluster-secret-file <file>",
    "File with the secret that Perigee's workers want; the first line is sent.",
  ],
  ["--worker-api-key-file <file>", "File with the API key that workers of other engines want."],
  ["--worker-ca <file>", "Certificates (PEM) of the authorities of https workers."],
  ["--tls-cert <file>", "Certificate (PEM) of this server: clients come by https."],
  ["--tls-key <file>", "Key (PEM) of --tls-cert."],
  [
    "--explain <prompt>",
    "Ask the router that runs at --host and --port who would get this prompt and why, and end.",
  ],
];

interface RouteFlags extends Readonly<Record<string, unknown>> {
  readonly apiKeyFile?: string;
  readonly clusterSecretFile?: string;
  readonly workerApiKeyFile?: string;
  readonly workerCa?: string;
  readonly tlsCert?: string;
  readonly tlsKey?: string;
  readonly explain?: string;
}

type Warn = (message: string) => void;

/** `perigee route`. */
export function defineRoute(command: Command): void {
  command.action((flags: RouteFlags) => route(flags));
  routerFlags.addTo(command, HEADING);
  for (const [flag, help] of OPTIONS) {
    command.addOption(new Option(flag, help).helpGroup(HEADING));
  }
}

async function route(flags: RouteFlags): Promise<void> {
  routerFlags.check(flags);
  const given: RouterOptions = routerFlags.collect(flags);
  const lines = startLines();
  const apiKey = await readApiKeys({
    ...{ flags: given.apiKey ?? [], file: flags.apiKeyFile },
    ...{ environment: process.env, warn: lines.warn },
  });
  const options = { ...given, apiKey, redis: given.redis ?? process.env[REDIS_VARIABLE] ?? null };
  if (flags.explain !== undefined) return explain(options, flags.explain, flags);
  giveFreedMemoryBack(process.env, HEAP_GROWTH_PERCENT);
  const router = await startRouter(options, await readSecrets(flags, lines.warn));
  lines.say(`routing at ${router.url} (process ${process.pid})`, { url: router.url });
  await untilStopped(() => router.close(), lines.say);
}

async function readSecrets(flags: RouteFlags, warn: Warn): Promise<RouterSecrets> {
  const [clusterSecret] = await readClusterSecrets(flags.clusterSecretFile, warn);
  const workerApiKey = await readWorkerKey(flags.workerApiKeyFile, warn);
  const workerCa = await readPem(flags.workerCa);
  const tls = await readPemPair(
    { flag: "--tls-cert", file: flags.tlsCert },
    { flag: "--tls-key", file: flags.tlsKey },
  );
  return {
    ...(clusterSecret !== undefined && { clusterSecret }),
    ...(workerApiKey !== null && { workerApiKey }),
    ...(workerCa !== null && { workerCa }),
    ...(tls !== null && { tls }),
  };
}

async function explain(
  { host = "127.0.0.1", port = 8000, apiKey = [] }: RouterOptions,
  prompt: string,
  { tlsCert }: RouteFlags,
): Promise<void> {
  const [key] = apiKey;
  const place = host.includes(":") ? `[${host}]` : host;
  const url = `${tlsCert === undefined ? "http" : "https"}://${place}:${port}/route/explain`;
  const { status, text } = await askRouter(url, {
    headers: {
      "content-type": "application/json",
      ...(key === undefined ? {} : { authorization: `Bearer ${key}` }),
    },
    body: JSON.stringify({ messages: [{ role: "user", content: prompt }] }),
  });
  if (status !== 200) {
    throw new EngineError("NETWORK", `Cannot explain: ${refusalOf(url, status, text)}`);
  }
  process.stdout.write(explanationText(JSON.parse(text)));
}

/** The whole answer. Throws NETWORK where there is none in time. */
async function askRouter(
  url: string,
  question: { readonly headers: Readonly<Record<string, string>>; readonly body: string },
): Promise<{ readonly status: number; readonly text: string }> {
  const signal = AbortSignal.timeout(EXPLAIN_MS);
  try {
    const answer = await systemHttp().ask(url, { method: "POST", ...question, signal });
    return { status: answer.status, text: await answer.text(EXPLANATION_BYTES_MAX) };
  } catch (cause) {
    const wanted = "a router must run at --host and --port";
    const found = signal.aborted ? `no answer in ${EXPLAIN_MS} ms` : failureText(cause);
    const message = `Cannot explain: ${wanted}, current value is ${found} at ${url}`;
    throw new EngineError("NETWORK", message, { cause });
  }
}

/** Why a server does not explain, with the remedy. */
function refusalOf(url: string, status: number, text: string): string {
  if (status === 401)
    return `${url} needs an API key of the router (status 401); give --api-key-file`;
  if (status === 404)
    return `${url} must be a router's, current value is another server's (status 404)`;
  return `${url} answers ${status}: ${text}`;
}
