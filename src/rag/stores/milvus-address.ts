/** Addresses of Milvus servers: `milvus://user:password@host:19530/database?tls=true`. */
import { EngineError, valueText } from "#base";

/** How many of a server's own writes a search may not see yet; `Strong`: none. */
export type Consistency = "Strong" | "Session" | "Bounded" | "Eventually";

/** A server, and how it is spoken to. */
export interface MilvusAddress {
  /** Host and port. */
  readonly address: string;
  readonly user: string | null;
  readonly password: string | null;
  /** An API key of Zilliz Cloud, or `user:password`. */
  readonly token: string | null;
  readonly database: string | null;
  readonly hasTls: boolean;
  /** File of the authority that signed the server's certificate; null: those of the system. */
  readonly authorityPath: string | null;
  /** The name in the server's certificate, where it is another one than the host. */
  readonly serverName: string | null;
  readonly consistency: Consistency;
  /** Of one call of the server. */
  readonly timeoutMs: number;
  /** For messages and logs: without secrets. */
  readonly location: string;
}

const SCHEMES = ["milvus:", "http:", "https:"];
const CONSISTENCIES: readonly Consistency[] = ["Strong", "Session", "Bounded", "Eventually"];
const SETTINGS = ["tls", "token", "consistency", "timeoutMs", "ca", "serverName"];
const PORT = 19_530;
const TIMEOUT_MS = 30_000;
const TIMEOUT_MS_MAX = 600_000;
const DATABASE = /^[A-Za-z0-9_]{1,255}$/;

/** Whether it is the address of a server, and not a path of a folder. */
export function isMilvusAddress(where: string): boolean {
  return SCHEMES.some((scheme) => where.toLowerCase().startsWith(`${scheme}//`));
}

/** Throws INVALID_ARGUMENT, without the address's secrets. */
export function parseMilvusAddress(where: string): MilvusAddress {
  if (!isMilvusAddress(where) || !URL.canParse(where)) {
    throw invalid("address", "milvus://user:password@host:port/database", "another text");
  }
  const url = new URL(where);
  const settings = settingsOf(url);
  const database = databaseOf(url);
  const hasTls = url.protocol === "https:" || settings.get("tls") === "true";
  const host = url.hostname;
  if (host === "") throw invalid("host", "a name or an address", "none");
  const port = url.port === "" ? (url.protocol === "https:" ? 443 : PORT) : Number(url.port);
  return {
    address: `${host}:${port}`,
    user: decoded("user", url.username),
    password: decoded("password", url.password),
    token: settings.get("token") || null,
    database,
    hasTls,
    authorityPath: settings.get("ca") || null,
    serverName: settings.get("serverName") || null,
    consistency: consistencyOf(settings.get("consistency") ?? "Strong"),
    timeoutMs: timeoutOf(settings.get("timeoutMs")),
    location: `milvus://${host}:${port}${database === null ? "" : `/${database}`}`,
  };
}

function settingsOf(url: URL): URLSearchParams {
  for (const name of url.searchParams.keys()) {
    if (!SETTINGS.includes(name)) throw invalid("setting", `one of ${SETTINGS.join(", ")}`, name);
  }
  const tls = url.searchParams.get("tls");
  if (tls !== null && tls !== "true" && tls !== "false") {
    throw invalid("tls", "true or false", tls);
  }
  return url.searchParams;
}

function databaseOf(url: URL): string | null {
  const name = decoded("database", url.pathname.slice(1));
  if (name === null) return null;
  if (!DATABASE.test(name)) throw invalid("database", "letters, digits and _", name);
  return name;
}

function consistencyOf(text: string): Consistency {
  const found = CONSISTENCIES.find((one) => one.toLowerCase() === text.toLowerCase());
  if (found === undefined) {
    throw invalid("consistency", `one of ${CONSISTENCIES.join(", ")}`, text);
  }
  return found;
}

function timeoutOf(text: string | null): number {
  const timeoutMs = Number(text ?? TIMEOUT_MS);
  const isValid = Number.isInteger(timeoutMs) && timeoutMs >= 1 && timeoutMs <= TIMEOUT_MS_MAX;
  if (!isValid) throw invalid("timeoutMs", `a whole number from 1 to ${TIMEOUT_MS_MAX}`, text);
  return timeoutMs;
}

/** Null: there is none. */
function decoded(name: string, text: string): string | null {
  try {
    return text === "" ? null : decodeURIComponent(text);
  } catch {
    throw invalid(name, "percent-encoded UTF-8", "another text");
  }
}

function invalid(name: string, wanted: string, value: unknown): EngineError {
  const state = `its ${name} must be ${wanted}, current value is ${valueText(value)}`;
  const message = `Cannot read the address of a Milvus server: ${state}`;
  return new EngineError("INVALID_ARGUMENT", message, { param: name });
}
