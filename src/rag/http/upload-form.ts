/** A file that comes as multipart/form-data: streamed to the disk, never whole in memory. */
import { createHash, randomUUID } from "node:crypto";
import { type FileHandle, open, rm } from "node:fs/promises";
import type { IncomingMessage } from "node:http";
import { join } from "node:path";
import { Busboy, type BusboyFileStream, type BusboyInstance } from "@fastify/busboy";
import { EngineError, messageOf } from "#base";
import { fieldError, HttpError } from "#server";
import { safeName } from "./safe-name.ts";
import type { Upload } from "./uploaded-files.ts";

/** Where an upload goes, and how much of it. */
export interface UploadTarget {
  readonly folder: string;
  readonly fileBytesMax: number;
  readonly signal: AbortSignal;
}

/** Bytes of a form beside those of its file. */
export const FORM_BYTES_MAX = 2 ** 16;
const FIELD_BYTES_MAX = 1024;
const FIELDS_MAX = 16;
const HEADER_BYTES_MAX = 8192;
const HEADERS_MAX = 32;
/** Longest time from the last byte of a form to its last field. */
const END_MS = 60_000;

const PURPOSES = ["assistants", "user_data"];
const EXPIRY_SECONDS = { min: 3600, max: 2_592_000 };

interface Received {
  readonly path: string;
  readonly filename: string;
  readonly bytes: number;
  readonly hash: string;
}

/**
 * Reads a form with the fields `file`, `purpose` and `expires_after`. What it wrote is gone when it
 * fails. Throws HttpError 400, 413, 415, INVALID_ARGUMENT, IO, or the signal's reason.
 */
export async function readUploadForm(
  request: IncomingMessage,
  target: UploadTarget,
): Promise<Upload> {
  const path = join(target.folder, randomUUID());
  try {
    const { file, fields } = await new UploadForm(request, path, target).read();
    return { ...file, ...uploadFields(fields) };
  } catch (error) {
    await rm(path, { force: true });
    throw error;
  }
}

class UploadForm {
  readonly #request: IncomingMessage;
  readonly #path: string;
  readonly #target: UploadTarget;
  readonly #form: BusboyInstance;
  readonly #fields = new Map<string, string>();
  #file: Promise<Received> | null = null;
  #stream: BusboyFileStream | null = null;
  #timer: NodeJS.Timeout | undefined;
  #fail: (reason: unknown) => void = () => {};
  /** Of the request's last byte; not listened to any more once the form is read or refused. */
  readonly #onEnd = (): void => {
    this.#form.end();
    this.#timer = setTimeout(() => this.#fail(badForm("it has no end")), END_MS);
  };

  constructor(request: IncomingMessage, path: string, target: UploadTarget) {
    this.#request = request;
    this.#path = path;
    this.#target = target;
    this.#form = newForm(request, target.fileBytesMax);
  }

  async read(): Promise<{ readonly file: Received; readonly fields: Map<string, string> }> {
    const { signal } = this.#target;
    const onAbort = () => this.#fail(signal.reason);
    try {
      await new Promise<void>((resolve, reject) => {
        this.#fail = reject;
        this.#listen(resolve);
        signal.addEventListener("abort", onAbort);
        if (signal.aborted) onAbort();
        this.#feed();
      });
      const file = await this.#file;
      if (file === null) throw fieldError("file", "must be a file of the form, there is none");
      return { file, fields: this.#fields };
    } catch (error) {
      this.#stream?.destroy(error instanceof Error ? error : new Error(messageOf(error)));
      await this.#file?.catch(() => {}); // the reason above is told
      throw error;
    } finally {
      clearTimeout(this.#timer);
      signal.removeEventListener("abort", onAbort);
      this.#request.removeAllListeners("data").off("end", this.#onEnd);
      // What is left of it is read and dropped, so that the client gets its answer.
      this.#request.resume();
    }
  }

  #listen(resolve: () => void): void {
    const form = this.#form;
    form.on("file", (name, stream, filename) => {
      // Before all else: an error without a listener would end the process.
      stream.on("error", (error) => this.#fail(badForm(messageOf(error))));
      if (name === "file") {
        this.#stream = stream;
        this.#file = this.#receive(stream, filename);
        this.#file.catch(() => {}); // `read` awaits it, too
      } else {
        stream.resume();
        this.#fail(fieldError("file", "must be the only file of the form"));
      }
    });
    form.on("field", (name, value, _nameTruncated, isTruncated) => {
      if (isTruncated) this.#fail(tooLong(`a field of a form may have ${FIELD_BYTES_MAX} bytes`));
      else if (typeof name === "string") this.#fields.set(name, value);
    });
    form.on("filesLimit", () => this.#fail(fieldError("file", "must be one file")));
    form.on("fieldsLimit", () => this.#fail(tooLong(`a form may have ${FIELDS_MAX} fields`)));
    form.on("partsLimit", () => this.#fail(tooLong(`a form may have ${FIELDS_MAX} parts`)));
    form.on("error", (error) => this.#fail(badForm(messageOf(error))));
    form.on("finish", resolve);
  }

  #feed(): void {
    const [request, form] = [this.#request, this.#form];
    const bytesMax = this.#target.fileBytesMax + FORM_BYTES_MAX;
    let bytes = 0;
    request.on("data", (chunk: Buffer) => {
      bytes += chunk.length;
      if (bytes > bytesMax) this.#fail(this.#tooLarge());
      else if (!form.write(chunk)) {
        request.pause();
        form.once("drain", () => request.resume());
      }
    });
    request.once("end", this.#onEnd);
    request.once("error", (error) => this.#fail(badForm(messageOf(error))));
  }

  async #receive(stream: BusboyFileStream, filename: string): Promise<Received> {
    try {
      const file = await open(this.#path, "wx", 0o600);
      try {
        return await this.#write(stream, filename, file);
      } finally {
        await file.close();
      }
    } catch (error) {
      const isOurs = error instanceof HttpError || error instanceof EngineError;
      const message = `Cannot keep an upload: ${messageOf(error)}`;
      const reason = isOurs ? error : new EngineError("IO", message, { cause: error });
      this.#fail(reason);
      throw reason;
    } finally {
      stream.resume();
    }
  }

  async #write(stream: BusboyFileStream, filename: string, file: FileHandle): Promise<Received> {
    const hash = createHash("sha256");
    let bytes = 0;
    for await (const chunk of stream as AsyncIterable<Buffer>) {
      hash.update(chunk);
      bytes += chunk.length;
      await file.appendFile(chunk);
    }
    if (stream.truncated) throw this.#tooLarge();
    await file.sync();
    return { path: this.#path, filename: safeName(filename), bytes, hash: hash.digest("hex") };
  }

  #tooLarge(): HttpError {
    return tooLong(
      `a file may have ${this.#target.fileBytesMax} bytes, this one has more; split it, or start ` +
        "the server with a larger --rag-file-bytes-max",
    );
  }
}

function newForm({ headers }: IncomingMessage, fileBytesMax: number): BusboyInstance {
  const type = headers["content-type"];
  if (type === undefined || !/^multipart\/form-data\b/i.test(type)) {
    throw new HttpError(
      415,
      "invalid_media_type",
      `Cannot read body: its type must be multipart/form-data, current value is ${type}`,
    );
  }
  try {
    return new Busboy({
      headers: { ...headers, "content-type": type },
      limits: {
        ...{ fieldSize: FIELD_BYTES_MAX, fields: FIELDS_MAX, parts: FIELDS_MAX + 1, files: 1 },
        ...{ fileSize: fileBytesMax, headerPairs: HEADERS_MAX, headerSize: HEADER_BYTES_MAX },
      },
    });
  } catch (error) {
    throw badForm(messageOf(error));
  }
}

function badForm(reason: string): HttpError {
  const message = `Cannot read form: it must be multipart/form-data, ${reason}`;
  return new HttpError(400, "invalid_form", message);
}

function tooLong(wanted: string): HttpError {
  return new HttpError(413, "form_too_large", `Cannot read form: ${wanted}`);
}

/** The other fields of the form. Throws INVALID_ARGUMENT. */
function uploadFields(fields: ReadonlyMap<string, string>) {
  const known = ["purpose", "expires_after[anchor]", "expires_after[seconds]"];
  const unknown = [...fields.keys()].find((name) => !known.includes(name));
  if (unknown !== undefined) throw fieldError(unknown, "is not a known field; leave it out");
  const purpose = fields.get("purpose");
  if (purpose === undefined || !PURPOSES.includes(purpose)) {
    const current = purpose ?? "missing";
    throw fieldError("purpose", `must be ${PURPOSES.join(" or ")}, current value is ${current}`);
  }
  return { purpose, expiresAfterSeconds: expiry(fields) };
}

function expiry(fields: ReadonlyMap<string, string>): number | null {
  const anchor = fields.get("expires_after[anchor]");
  const seconds = fields.get("expires_after[seconds]");
  if (anchor === undefined && seconds === undefined) return null;
  if (anchor !== "created_at") throw fieldError("expires_after.anchor", "must be created_at");
  const { min, max } = EXPIRY_SECONDS;
  const count = /^\d{1,9}$/.test(seconds ?? "") ? Number(seconds) : Number.NaN;
  if (count >= min && count <= max) return count;
  throw fieldError(
    "expires_after.seconds",
    `must be ${min} to ${max}, current value is ${seconds}`,
  );
}
