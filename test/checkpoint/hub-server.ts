/** A hub in small: one repository over HTTP, with the faults that downloads meet. */
import { createHash } from "node:crypto";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { onTestFinished } from "vitest";

export interface HubFaults {
  /** Cut the connection after so many bytes of a large file, this many times. */
  dropsLeft: number;
  /** Send a part of it, and leave the connection open: the list of files, or large ones. */
  stalls: "list" | "file" | null;
  /** Answer everything with this status. */
  status: number | null;
  /** Ignore Range headers. */
  rangeless: boolean;
  /** Send other bytes than the listing promises. */
  damaged: boolean;
  /** Send files from this address instead, as a network of copies does. */
  filesAt: string | null;
  /** Say that the list of files goes on at this address. */
  nextPage: string | null;
  /** Send this in place of the list of files. */
  listing: string | null;
}

export interface HubServer {
  readonly url: string;
  readonly faults: HubFaults;
  /** `METHOD path range` of each request. */
  readonly log: string[];
  /** The Authorization header of the last request. */
  authorization: string | undefined;
  /** Those of all requests that had one. */
  readonly authorizations: string[];
}

export const COMMIT = "c0ffee".padEnd(40, "0");
const LARGE_BYTES = 1000;
const DROP_AFTER_BYTES = 40_000;
const DROP_DELAY_MS = 30;

/** Serves `files` as ORG/NAME until the test ends. */
export async function startHub(
  name: string,
  files: Readonly<Record<string, Buffer>>,
): Promise<HubServer> {
  const hub: { -readonly [key in keyof HubServer]: HubServer[key] } = {
    url: "",
    faults: {
      dropsLeft: 0,
      stalls: null,
      status: null,
      rangeless: false,
      damaged: false,
      filesAt: null,
      nextPage: null,
      listing: null,
    },
    log: [],
    authorization: undefined,
    authorizations: [],
  };
  const server = createServer((request, response) => {
    hub.authorization = request.headers.authorization;
    if (hub.authorization !== undefined) hub.authorizations.push(hub.authorization);
    hub.log.push(`${request.url} ${request.headers.range ?? ""}`.trim());
    answer(hub, { name, files }, request, response);
  });
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  // A TCP server's address is never a string.
  hub.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return hub;
}

interface Repository {
  readonly name: string;
  readonly files: Readonly<Record<string, Buffer>>;
}

function answer(
  hub: HubServer,
  repository: Repository,
  request: IncomingMessage,
  response: ServerResponse,
): void {
  const path = decodeURIComponent((request.url ?? "").split("?")[0] ?? "");
  const api = `/api/models/${repository.name}`;
  const prefix = `/${repository.name}/resolve/${COMMIT}/`;
  const file = path.startsWith(prefix) ? repository.files[path.slice(prefix.length)] : undefined;
  if (hub.faults.status !== null) response.writeHead(hub.faults.status).end("{}");
  else if (path === `${api}/revision/main`) json(response, { sha: COMMIT, id: repository.name });
  else if (path === `${api}/tree/${COMMIT}`) sendList(hub.faults, repository, response);
  else if (hub.faults.filesAt !== null && path.startsWith(prefix)) {
    response.writeHead(302, { location: hub.faults.filesAt + request.url }).end();
  } else if (file === undefined) response.writeHead(404).end("{}");
  else sendFile(hub.faults, file, request, response);
}

function sendList(
  { nextPage, listing, stalls }: HubFaults,
  { files }: Repository,
  response: ServerResponse,
): void {
  if (nextPage !== null) response.setHeader("link", `<${nextPage}>; rel="next"`);
  const list = Object.entries(files).map(listed);
  response.writeHead(200, { "content-type": "application/json" });
  if (stalls === "list") response.write("[");
  else response.end(listing ?? JSON.stringify(list));
}

function json(response: ServerResponse, value: unknown): void {
  response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(value));
}

function listed([path, content]: [string, Buffer]): unknown {
  const size = content.length;
  const oid = createHash("sha1").update(`blob ${size}\0`).update(content).digest("hex");
  const lfs = { oid: createHash("sha256").update(content).digest("hex"), size, pointerSize: 130 };
  return { type: "file", path, size, oid, ...(size > LARGE_BYTES ? { lfs } : {}) };
}

function sendFile(
  faults: HubFaults,
  file: Buffer,
  request: IncomingMessage,
  response: ServerResponse,
): void {
  const [, first, last] = /^bytes=(\d+)-(\d*)$/.exec(request.headers.range ?? "") ?? [];
  // The client library's look-up asks for one byte and needs to learn the size.
  const ranged = first !== undefined && (!faults.rangeless || last === "0");
  const start = ranged ? Number(first) : 0;
  const end = ranged && last ? Number(last) + 1 : file.length;
  const content = Buffer.from(file.subarray(start, end));
  if (faults.damaged && content.length > 1) content[0] = (content[0] ?? 0) ^ 1;
  response.writeHead(ranged ? 206 : 200, {
    etag: '"etag"',
    "x-cache": "Hit from cloudfront",
    "content-length": content.length,
    ...(ranged ? { "content-range": `bytes ${start}-${end - 1}/${file.length}` } : {}),
  });
  if (faults.stalls === "file" && content.length > DROP_AFTER_BYTES) {
    response.write(content.subarray(0, DROP_AFTER_BYTES));
    return;
  }
  if (faults.dropsLeft === 0 || content.length <= DROP_AFTER_BYTES) {
    response.end(content);
    return;
  }
  faults.dropsLeft -= 1;
  // A client forgets what it has not yet read of a broken stream: give it time to read.
  response.write(content.subarray(0, DROP_AFTER_BYTES), () => {
    setTimeout(() => response.destroy(), DROP_DELAY_MS);
  });
}
