/** Files of vector stores, one by one and in batches. */
import { Readable } from "node:stream";
import type { FastifyInstance, FastifyReply } from "fastify";
import { parseRequest } from "#server";
import { batchBody, contentPieces, deletedBody, memberBody } from "./bodies.ts";
import { pageBody, pageOf, pageRequest, without } from "./page.ts";
import type { BatchRecord, MemberRecord } from "./records.ts";
import {
  BatchCreation,
  MemberCreation,
  MemberQuery,
  MemberUpdate,
  memberOf,
  membersOf,
} from "./request-params.ts";
import type { RouteParts } from "./route-parts.ts";

/** Parameters of paths below a store, a file in it, and a batch. */
interface StoreParams {
  readonly Params: { readonly store: string };
}
interface MemberParams {
  readonly Params: { readonly store: string; readonly file: string };
}
interface BatchParams {
  readonly Params: { readonly store: string; readonly batch: string };
}

const PAGE = { kind: "file", limitDefault: 20, limitMax: 100 } as const;
/** When OpenAI's clients ask again whether files are in. */
const POLL_MS = 500;

const FILES = "/v1/vector_stores/:store/files";
const BATCHES = "/v1/vector_stores/:store/file_batches";

export function storeFileRoutes(app: FastifyInstance, parts: RouteParts): void {
  const { stores, admit, ingest } = parts;
  const shown = (member: MemberRecord) => memberBody(member, parts.chunkingDefault);
  const find = ({ store, file }: MemberParams["Params"]) =>
    stores.files.get(stores.get(store), file);
  app.post<StoreParams>(FILES, (request, reply) =>
    admit(request, reply, async () => {
      const member = memberOf(parseRequest(MemberCreation, request.body));
      const store = stores.use(stores.get(request.params.store));
      const [added] = await stores.files.attach(store, [member]);
      return added === undefined ? null : shown(added);
    }),
  );
  app.get<StoreParams>(FILES, async ({ params, query }) =>
    listMembers(stores.files.of(stores.get(params.store)), query, shown),
  );
  app.get<MemberParams>(`${FILES}/:file`, async ({ params }, reply) => {
    const member = find(params);
    if (member.status === "in_progress") askAgain(reply);
    return shown(member);
  });
  app.post<MemberParams>(`${FILES}/:file`, (request, reply) =>
    admit(request, reply, async () => {
      const { attributes } = parseRequest(MemberUpdate, request.body);
      return shown(await stores.files.updateMember(find(request.params), attributes ?? {}));
    }),
  );
  app.delete<MemberParams>(`${FILES}/:file`, (request, reply) =>
    admit(request, reply, async () => {
      const member = find(request.params);
      await stores.files.detach(member);
      return deletedBody(member.fileId, "vector_store.file.deleted");
    }),
  );
  app.get<MemberParams>(`${FILES}/:file/content`, (request, reply) =>
    admit(request, reply, async () => {
      const { storeId, fileId } = find(request.params);
      const texts = await ingest.texts(storeId, fileId);
      // In pieces: all of a long file at once would make other requests wait.
      return await reply
        .type("application/json; charset=utf-8")
        .send(Readable.from(contentPieces(texts), { objectMode: false }));
    }),
  );
  batchRoutes(app, parts, shown);
}

function batchRoutes(
  app: FastifyInstance,
  { stores, admit }: RouteParts,
  shown: (member: MemberRecord) => ReturnType<typeof memberBody>,
): void {
  const bodyOf = (batch: BatchRecord) => batchBody(batch, stores.files.membersOf(batch));
  const find = ({ store, batch }: BatchParams["Params"]) =>
    stores.files.batch(stores.get(store), batch);
  app.post<StoreParams>(BATCHES, (request, reply) =>
    admit(request, reply, async () => {
      const members = membersOf(parseRequest(BatchCreation, request.body));
      const store = stores.use(stores.get(request.params.store));
      return bodyOf(await stores.files.attachBatch(store, members));
    }),
  );
  app.get<BatchParams>(`${BATCHES}/:batch`, async ({ params }, reply) => {
    const body = bodyOf(find(params));
    if (body.status === "in_progress") askAgain(reply);
    return body;
  });
  app.post<BatchParams>(`${BATCHES}/:batch/cancel`, (request, reply) =>
    admit(request, reply, async () => bodyOf(await stores.files.cancel(find(request.params)))),
  );
  app.get<BatchParams>(`${BATCHES}/:batch/files`, async ({ params, query }) =>
    listMembers(stores.files.membersOf(find(params)), query, shown),
  );
}

function listMembers(
  members: readonly MemberRecord[],
  query: unknown,
  shown: (member: MemberRecord) => { readonly id: string },
): object {
  const [own, rest] = without(query, "filter");
  const { filter: status } = parseRequest(MemberQuery, own);
  const list = members.filter((member) => status === undefined || member.status === status);
  return pageBody(pageOf(list, pageRequest(rest, PAGE)), shown);
}

function askAgain(reply: FastifyReply): void {
  reply.header("openai-poll-after-ms", POLL_MS);
}
