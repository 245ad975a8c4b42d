/** Downloads of models from the Hugging Face hub into the cache that its tools share. */
import { join } from "node:path";
import { fileDownloadInfo, listFiles, modelInfo } from "@huggingface/hub";
import { EngineError } from "#base";
import {
  type CachedRepository,
  cachedRepository,
  snapshotDirectory,
  writeReference,
} from "./hub-cache.ts";
import { downloadBlob, type HubFile, linkBlob } from "./hub-download.ts";
import { type HubRequest, hubError } from "./hub-error.ts";
import { chooseFiles } from "./hub-files.ts";

const DEFAULT_HUB_URL = "https://huggingface.co";

export interface PullOptions {
  /** ORG/NAME. */
  readonly name: string;
  /** Branch, tag or commit; `main` by default. */
  readonly revision?: string;
  /** Access token, `hf_…`, for gated and private models. */
  readonly token?: string;
  /** By default what Hugging Face's client makes of the environment. */
  readonly cacheDir?: string;
  readonly hubUrl?: string;
  /** One file of the repository, e.g. a .gguf; by default what a safetensors model needs. */
  readonly file?: string;
  readonly onProgress?: (progress: PullProgress) => void;
  /** Stops the download; what arrived is kept and resumed. */
  readonly signal?: AbortSignal;
}

export interface PullProgress {
  /** The file that is being downloaded. */
  readonly file: string;
  /** Of all files together, those that were there before included. */
  readonly doneBytes: number;
  readonly totalBytes: number;
}

/**
 * Downloads what is missing and returns the path to open: the snapshot's directory, or the file
 * that was asked for. Throws UNAUTHORIZED, MODEL_NOT_FOUND, NETWORK, ABORTED, INVALID_ARGUMENT.
 */
export async function pullModel(options: PullOptions): Promise<string> {
  const repository = cachedRepository(options.name, options);
  const hubUrl = (options.hubUrl ?? DEFAULT_HUB_URL).replace(/\/+$/, "");
  checkToken(options.token);
  const request: HubRequest = { name: options.name, hubUrl, signal: options.signal };
  const client: HubClient = {
    ...request,
    repository,
    fetch: fetchFor(options),
    ...tokenOf(options),
  };
  try {
    const commit = await commitOf(client);
    const files = chooseFiles(await filesOf(client, commit), options);
    await pullFiles(client, { commit, files, onProgress: options.onProgress });
    await writeReference(repository, commit);
    const directory = snapshotDirectory(repository, commit);
    return options.file === undefined ? directory : join(directory, options.file);
  } catch (error) {
    throw hubError(error, request);
  }
}

interface HubClient extends HubRequest {
  readonly repository: CachedRepository;
  readonly fetch: typeof fetch;
  readonly accessToken?: string;
}

function tokenOf({ token }: PullOptions): { accessToken?: string } {
  return token === undefined ? {} : { accessToken: token };
}

/** The client library refuses other tokens with an error that has no remedy. */
function checkToken(token: string | undefined): void {
  if (token === undefined || token.startsWith("hf_")) return;
  throw new EngineError(
    "INVALID_ARGUMENT",
    "Cannot download: the hub token must start with hf_, current value does not; make one at " +
      "https://huggingface.co/settings/tokens",
    { param: "token" },
  );
}

function fetchFor({ signal }: PullOptions): typeof fetch {
  if (signal === undefined) return fetch;
  return (input, init) => fetch(input, { ...init, signal });
}

const HEX_HASH = /^[0-9a-f]{40}([0-9a-f]{24})?$/;

async function commitOf(client: HubClient): Promise<string> {
  const info = await modelInfo({
    ...client,
    revision: client.repository.revision,
    additionalFields: ["sha"],
  });
  if (typeof info.sha === "string" && HEX_HASH.test(info.sha)) return info.sha;
  throw new Error(`the model's commit must be a hash, current value is ${String(info.sha)}`);
}

async function filesOf(client: HubClient, commit: string): Promise<readonly HubFile[]> {
  const files: HubFile[] = [];
  const repo = { type: "model", name: client.name } as const;
  for await (const entry of listFiles({ ...client, repo, revision: commit, recursive: true })) {
    const hash = entry.lfs?.oid ?? entry.oid ?? "";
    // Both become names in the cache folder: a hostile server must not choose where we write.
    const safe = /^[\w+@=-][\w.+@=, -]*(\/[\w+@=-][\w.+@=, -]*)*$/.test(entry.path);
    if (entry.type !== "file" || !safe || !HEX_HASH.test(hash)) continue;
    files.push({ path: entry.path, sizeBytes: entry.size, hash });
  }
  return files;
}

interface Pull {
  readonly commit: string;
  readonly files: readonly HubFile[];
  readonly onProgress: PullOptions["onProgress"];
}

async function pullFiles(client: HubClient, { commit, files, onProgress }: Pull): Promise<void> {
  const totalBytes = files.reduce((sum, file) => sum + file.sizeBytes, 0);
  let before = 0;
  for (const file of files) {
    const report = (doneBytes: number) =>
      onProgress?.({ file: file.path, doneBytes: before + doneBytes, totalBytes });
    await pullFile(client, { commit, file, report });
    before += file.sizeBytes;
  }
}

interface FilePull {
  readonly commit: string;
  readonly file: HubFile;
  readonly report: (doneBytes: number) => void;
}

async function pullFile(client: HubClient, { commit, file, report }: FilePull): Promise<void> {
  const { repository, name } = client;
  const repo = { type: "model", name } as const;
  const at = { ...client, repo, path: file.path, revision: commit };
  const blob = await downloadBlob({
    locate: async () => (await fileDownloadInfo(at))?.url ?? null,
    file,
    blobs: join(repository.directory, "blobs"),
    fetch: authorised(client),
    onBytes: report,
  });
  await linkBlob(blob, join(snapshotDirectory(repository, commit), file.path));
}

/** fetch drops the header by itself where a redirect leads to another host. */
function authorised(client: HubClient): typeof fetch {
  const { accessToken } = client;
  if (accessToken === undefined) return client.fetch;
  return (input, init) => {
    const headers = new Headers(init?.headers);
    headers.set("Authorization", `Bearer ${accessToken}`);
    return client.fetch(input, { ...init, headers });
  };
}
