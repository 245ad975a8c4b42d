/** What a call of `ingest` reads. */
import { resolve } from "node:path";
import { EngineError } from "#base";
import { type AddressLimits, isWebAddress, type Resolve, type Root, rootsOf } from "#rag/readers";
import type { IngestSettings } from "./config.ts";

/** Files below roots, and addresses. */
export interface Sources {
  readonly roots: readonly Root[];
  /** Of the web. */
  readonly addresses: readonly string[];
  /** How those are read; of no use without any. */
  readonly addressLimits: AddressLimits;
}

/** Which addresses of the web may be read: public ones of the network, by http and https. */
export interface AddressOptions {
  /** `host:port` of servers that may have private addresses. */
  readonly privateHosts?: readonly string[];
  /** The system's by default. */
  readonly resolve?: Resolve;
}

/** Where paths begin, and whether addresses may be among them. */
export interface SourceOptions {
  readonly base?: string | undefined;
  readonly addresses?: AddressOptions | undefined;
}

/** The sources of paths and addresses. Throws INVALID_ARGUMENT where one cannot be read. */
export function sourcesOf(
  paths: readonly string[],
  { base = ".", addresses: allowed }: SourceOptions,
  { fileBytesMax, fileSeconds }: IngestSettings,
): Sources {
  const addresses = paths.filter(isWebAddress).map((path) => webAddress(path));
  const [first] = addresses;
  if (first !== undefined && allowed === undefined) {
    const message = `Cannot read ${JSON.stringify(first)}: addresses must be allowed, they are not`;
    throw new EngineError("INVALID_ARGUMENT", message, { param: "addresses" });
  }
  const files = paths.filter((path) => !isWebAddress(path));
  const { privateHosts = [], resolve: own } = allowed ?? {};
  const limits = { privateHosts, bytesMax: fileBytesMax, seconds: fileSeconds };
  const addressLimits = own === undefined ? limits : { ...limits, resolve: own };
  return { roots: rootsOf(files, resolve(base)), addresses, addressLimits };
}

const ADDRESS_LENGTH_MAX = 2048;

/** The name of an address's document: as the standard writes it, without fragment and password. */
function webAddress(path: string): string {
  if (!URL.canParse(path) || path.length > ADDRESS_LENGTH_MAX) {
    const shown = JSON.stringify(path.slice(0, 200));
    const wanted = `an address of the web of at most ${ADDRESS_LENGTH_MAX} characters`;
    const message = `Cannot ingest ${shown}: it must be ${wanted}`;
    throw new EngineError("INVALID_ARGUMENT", message, { param: "paths" });
  }
  const url = new URL(path);
  url.hash = url.username = url.password = "";
  return url.href;
}
