/** OpenAI's files: upload, list, retrieve, content, delete. */
import { createReadStream } from "node:fs";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { EngineError } from "#base";
import { parseRequest } from "#server";
import { deletedBody, fileBody } from "./bodies.ts";
import { LIMITS } from "./config.ts";
import { pageBody, pageOf, pageRequest, without } from "./page.ts";
import { FileQuery } from "./request-params.ts";
import type { RouteParts } from "./route-parts.ts";
import { FORM_BYTES_MAX, readUploadForm } from "./upload-form.ts";

/** Parameters of a path below a file. */
interface FileParams {
  readonly Params: { readonly file: string };
}

const LIST_MAX = 10_000;

/** Adds them to an application of their own: its bodies may be forms. */
export function fileRoutes(app: FastifyInstance, parts: RouteParts): void {
  // The form is read by its route, which streams it to the disk.
  app.addContentTypeParser("multipart/form-data", (_request, _body, done) => done(null));
  let uploads = 0;
  app.post("/v1/files", async (request, reply) => {
    if (uploads >= LIMITS.uploads) throw tooManyUploads();
    uploads++;
    try {
      return await parts.admit(request, reply, (signal) => upload(request, parts, signal));
    } finally {
      uploads--;
    }
  });
  app.get("/v1/files", async ({ query }) => listFiles(query, parts));
  app.get<FileParams>("/v1/files/:file", async ({ params }) => {
    return fileBody(parts.files.get(params.file));
  });
  app.get<FileParams>("/v1/files/:file/content", async ({ params }, reply) => {
    return sendContent(params.file, reply, parts);
  });
  app.delete<FileParams>("/v1/files/:file", async ({ params }) => {
    const file = parts.files.get(params.file);
    await parts.stores.removeFile(file);
    return deletedBody(file.id, "file");
  });
}

async function upload(
  { raw }: FastifyRequest,
  { files, nowSeconds }: RouteParts,
  signal: AbortSignal,
): Promise<object> {
  const { fileBytesMax, incoming: folder } = files;
  const length = Number(raw.headers["content-length"] ?? Number.POSITIVE_INFINITY);
  const room = files.reserve(Math.min(length, fileBytesMax + FORM_BYTES_MAX));
  try {
    const form = await readUploadForm(raw, { folder, fileBytesMax, signal });
    return fileBody(await files.add(form, nowSeconds()));
  } finally {
    room.release();
  }
}

function listFiles(query: unknown, { files }: RouteParts): object {
  const [own, rest] = without(query, "purpose");
  const { purpose: wanted } = parseRequest(FileQuery, own);
  const limits = { limitDefault: LIST_MAX, limitMax: LIST_MAX };
  const page = pageRequest(rest, { kind: "file", ...limits });
  const list = files.list().filter((file) => wanted === undefined || file.purpose === wanted);
  return pageBody(pageOf(list, page), fileBody);
}

function sendContent(id: string, reply: FastifyReply, { files }: RouteParts): FastifyReply {
  const file = files.get(id);
  const name = encodeURIComponent(file.filename).replace(/['()*]/g, escaped);
  return reply
    .header("content-type", "application/octet-stream")
    .header("content-length", file.bytes)
    .header("content-disposition", `attachment; filename*=UTF-8''${name}`)
    .header("x-content-type-options", "nosniff")
    .send(createReadStream(files.path(file)));
}

function escaped(character: string): string {
  return `%${character.charCodeAt(0).toString(16).toUpperCase()}`;
}

function tooManyUploads(): EngineError {
  return new EngineError(
    "QUEUE_FULL",
    `Cannot upload: at most ${LIMITS.uploads} files may arrive at a time; try again later`,
  );
}
