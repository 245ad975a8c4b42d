/** Downloads of models from the Hugging Face hub into the cache that its tools share. */
import { mkdir, statfs } from "node:fs/promises";
import { join } from "node:path";
import { EngineError } from "#base";
import {
  type CachedRepository,
  cachedRepository,
  exists,
  snapshotDirectory,
  writeReference,
} from "./hub-cache.ts";
import { downloadBlob, type HubFile, linkBlob } from "./hub-download.ts";
import { type HubRequest, hubError } from "./hub-error.ts";
import { boundedFetch, hubFetch } from "./hub-fetch.ts";
import { chooseFiles } from "./hub-files.ts";

const DEFAULT_HUB_URL = "https://huggingface.co";
/** More than the files of any repository of a model, and the pages of their list. */
const FILES_MAX = 100_000;
const PAGES_MAX = 1000;

export interface PullOptions {
  /** ORG/NAME. */
  readonly name: string;
  /** Branch, tag or commit; `main` by default. */
  readonly revision?: string;
  /** Access token, `hf_…`, for gated and private models. */
  readonly token?: string;
  /** By default the cache of Hugging Face's client in this environment. */
  readonly cacheDir?: string;
  readonly hubUrl?: string;
  /** One file of the repository, e.g. a .gguf; by default the files of a safetensors model. */
  readonly file?: string;
  readonly onProgress?: (progress: PullProgress) => void;
  /** Stops the download; received bytes are kept and resumed. */
  readonly signal?: AbortSignal;
}

export interface PullProgress {
  /** The file that is being downloaded. */
  readonly file: string;
  /** Bytes of all files together, including those present before. */
  readonly doneBytes: number;
  readonly totalBytes: number;
}

/**
 * Downloads missing files and returns the path to open: the snapshot's directory, or the requested
 * file. Throws UNAUTHORIZED, MODEL_NOT_FOUND, NETWORK, ABORTED, INVALID_ARGUMENT, and IO where the
 * files do not fit on the disk.
 */
export async function pullModel(options: PullOptions): Promise<string> {
  const repository = await cachedRepository(options.name, options);
  const hubUrl = (options.hubUrl ?? DEFAULT_HUB_URL).replace(/\/+$/, "");
  checkToken(options.token);
  const request: HubRequest = { name: options.name, hubUrl, signal: options.signal };
  const { token } = options;
  const client: HubClient = { ...request, repository, fetch: hubFetch({ ...request, token }) };
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
  /** Adds the token itself: the client library does not receive it. */
  readonly fetch: typeof fetch;
}

/** Every hub token has this prefix: any other text is a mistake, and is not sent. */
function checkToken(token: string | undefined): void {
  if (token === undefined || token.startsWith("hf_")) return;
  throw new EngineError(
    "INVALID_ARGUMENT",
    "Cannot download: the hub token must start with hf_, current value does not; make one at " +
      "https://huggingface.co/settings/tokens",
    { param: "token" },
  );
}

const HEX_HASH = /^[0-9a-f]{40}([0-9a-f]{24})?$/;

async function commitOf(client: HubClient): Promise<string> {
  const { modelInfo } = await import("@huggingface/hub");
  const info = await modelInfo({
    ...client,
    fetch: boundedFetch(client.fetch, 1),
    revision: client.repository.revision,
    additionalFields: ["sha"],
  });
  if (typeof info.sha === "string" && HEX_HASH.test(info.sha)) return info.sha;
  throw new Error(`the model's commit must be a hash, current value is ${String(info.sha)}`);
}

async function filesOf(client: HubClient, commit: string): Promise<readonly HubFile[]> {
  const { listFiles } = await import("@huggingface/hub");
  const files: HubFile[] = [];
  const repo = { type: "model", name: client.name } as const;
  const pages = { ...client, fetch: boundedFetch(client.fetch, PAGES_MAX) };
  let count = 0;
  for await (const entry of listFiles({ ...pages, repo, revision: commit, recursive: true })) {
    if (++count > FILES_MAX) throw new Error(`it lists more than ${FILES_MAX} files`);
    const hash = entry.lfs?.oid ?? entry.oid ?? "";
    // Both become names in the cache folder: a hostile server must not choose the target of a
    // write.
    const safe = /^[\w+@=-][\w.+@=, -]*(\/[\w+@=-][\w.+@=, -]*)*$/.test(entry.path);
    const sized = Number.isSafeInteger(entry.size) && entry.size >= 0;
    if (entry.type !== "file" || !safe || !sized || !HEX_HASH.test(hash)) continue;
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
  await checkRoom(client, files);
  const totalBytes = files.reduce((sum, file) => sum + file.sizeBytes, 0);
  let before = 0;
  for (const file of files) {
    const report = (doneBytes: number) =>
      onProgress?.({ file: file.path, doneBytes: before + doneBytes, totalBytes });
    await pullFile(client, { commit, file, report });
    before += file.sizeBytes;
  }
}

/** Fails before the download if the disk is too small. */
async function checkRoom(client: HubClient, files: readonly HubFile[]): Promise<void> {
  const blobs = join(client.repository.directory, "blobs");
  await mkdir(blobs, { recursive: true });
  let wantedBytes = 0;
  for (const { hash, sizeBytes } of files) {
    if (!(await exists(join(blobs, hash)))) wantedBytes += sizeBytes;
  }
  const { bavail, bsize } = await statfs(blobs);
  if (wantedBytes <= bavail * bsize) return;
  throw new EngineError(
    "IO",
    `Cannot download ${client.name}: ${blobs} must have room for ${wantedBytes} bytes, current ` +
      `value is ${bavail * bsize}; make room or pass --cache-dir`,
  );
}

interface FilePull {
  readonly commit: string;
  readonly file: HubFile;
  readonly report: (doneBytes: number) => void;
}

async function pullFile(client: HubClient, { commit, file, report }: FilePull): Promise<void> {
  const { fileDownloadInfo } = await import("@huggingface/hub");
  const { repository, name } = client;
  const repo = { type: "model", name } as const;
  const at = { ...client, repo, path: file.path, revision: commit };
  const blob = await downloadBlob({
    locate: async () => (await fileDownloadInfo(at))?.url ?? null,
    file,
    blobs: join(repository.directory, "blobs"),
    fetch: client.fetch,
    onBytes: report,
  });
  await linkBlob(blob, join(snapshotDirectory(repository, commit), file.path));
}
