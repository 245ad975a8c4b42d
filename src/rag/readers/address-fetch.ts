/** Documents of the web, read so that no page can lead the reader into a private network. */
import type { LookupFunction } from "node:net";
import { isIP } from "node:net";
import type { Dispatcher } from "undici";
import { EngineError, messageOf } from "#base";
import {
  isPublicAddress,
  type NetworkAddress,
  type Resolve,
  systemResolve,
} from "./address-guard.ts";

/** Which addresses may be read, and what one may cost. */
export interface AddressLimits {
  /** `host:port` of servers that may have private addresses. */
  readonly privateHosts: readonly string[];
  readonly bytesMax: number;
  /** Of all redirects together. */
  readonly seconds: number;
  readonly resolve?: Resolve;
}

/** A page that was read. */
export interface FetchedPage {
  /** Where redirects led. */
  readonly url: URL;
  readonly bytes: Uint8Array;
  /** As the server says; null: it does not. */
  readonly mediaType: string | null;
}

const REDIRECTS_MAX = 5;

/** Whether a path is an address of the web. */
export function isWebAddress(path: string): boolean {
  return /^https?:\/\//i.test(path);
}

/**
 * Reads an address. Each host on the way is resolved once; its addresses must be public, and the
 * connection goes to these, whatever its name means a moment later. Throws INVALID_ARGUMENT where
 * the address or its content may not be read, NETWORK where it cannot, the signal's reason.
 */
export async function fetchAddress(
  address: string,
  limits: AddressLimits,
  signal: AbortSignal,
): Promise<FetchedPage> {
  const inTime = AbortSignal.any([signal, AbortSignal.timeout(limits.seconds * 1000)]);
  try {
    let url = new URL(address);
    for (let redirects = 0; ; redirects++) {
      if (redirects > REDIRECTS_MAX)
        throw refused(address, "redirects", `at most ${REDIRECTS_MAX}`);
      const next = await fetchOne(address, url, limits, inTime);
      if (!(next instanceof URL)) return next;
      url = next;
    }
  } catch (cause) {
    signal.throwIfAborted();
    if (cause instanceof EngineError) throw cause;
    const reason = inTime.aborted ? `within ${limits.seconds} s (fileSeconds)` : messageOf(cause);
    const message = `Cannot read ${JSON.stringify(address)}: its server must answer, ${reason}`;
    throw new EngineError("NETWORK", message, { cause });
  }
}

/** The page, or where it says that it is. */
async function fetchOne(
  address: string,
  url: URL,
  limits: AddressLimits,
  signal: AbortSignal,
): Promise<FetchedPage | URL> {
  if (!isWebAddress(url.href)) throw refused(address, "protocol", "http or https", url.protocol);
  const addresses = await allowedAddresses(address, url, limits);
  const { Agent, request } = await import("undici");
  const agent = new Agent({ connect: { lookup: pinned(addresses) }, pipelining: 0 });
  try {
    const answer = await request(withoutSecrets(url), {
      ...{ dispatcher: agent, signal, headers: { "accept-encoding": "identity" } },
    });
    const { statusCode, headers } = answer;
    const { location } = headers;
    if (statusCode >= 300 && statusCode < 400 && typeof location === "string") {
      return new URL(location, url);
    }
    if (statusCode !== 200) {
      const message = `Cannot read ${JSON.stringify(address)}: its server must answer 200`;
      throw new EngineError("NETWORK", `${message}, current value is ${statusCode}`);
    }
    const coding = headers["content-encoding"];
    if (coding !== undefined && coding !== "identity") {
      throw refused(address, "content-encoding", "identity, as asked for", String(coding));
    }
    const bytes = await bodyOf(address, answer.body, limits.bytesMax);
    const mediaType = headers["content-type"];
    return { url, bytes, mediaType: typeof mediaType === "string" ? mediaType : null };
  } finally {
    await agent.destroy();
  }
}

/** The addresses of a host: all of them public, or the host named by the caller. */
async function allowedAddresses(
  address: string,
  url: URL,
  { privateHosts, resolve = systemResolve }: AddressLimits,
): Promise<readonly NetworkAddress[]> {
  const host = url.hostname.replace(/^\[(.*)\]$/, "$1");
  const family = isIP(host);
  const addresses = family === 0 ? await resolve(host) : [{ address: host, family }];
  const port = url.port || (url.protocol === "https:" ? "443" : "80");
  if (privateHosts.includes(`${host}:${port}`)) return addresses;
  for (const one of addresses) {
    if (!isPublicAddress(one.address)) {
      throw refused(address, `the address of ${host}`, "public", one.address);
    }
  }
  return addresses;
}

/** Connects to addresses that were looked at, without asking for the name again. */
function pinned(addresses: readonly NetworkAddress[]): LookupFunction {
  return (_host, { all }, answer) => {
    const [first = { address: "", family: 4 }] = addresses;
    if (all === true) answer(null, [...addresses]);
    else answer(null, first.address, first.family);
  };
}

function withoutSecrets(url: URL): URL {
  const plain = new URL(url);
  plain.username = "";
  plain.password = "";
  plain.hash = "";
  return plain;
}

async function bodyOf(
  address: string,
  body: Dispatcher.ResponseData["body"],
  bytesMax: number,
): Promise<Uint8Array> {
  const parts: Uint8Array[] = [];
  let length = 0;
  for await (const part of body as AsyncIterable<Uint8Array>) {
    length += part.length;
    if (length > bytesMax) {
      throw refused(address, "its length", `at most ${bytesMax} bytes (fileBytesMax)`, "more");
    }
    parts.push(part);
  }
  return Buffer.concat(parts);
}

function refused(address: string, what: string, wanted: string, current = "more"): EngineError {
  const message = `Cannot read ${JSON.stringify(address)}: ${what} must be ${wanted}`;
  return new EngineError("INVALID_ARGUMENT", `${message}, current value is ${current}`);
}
