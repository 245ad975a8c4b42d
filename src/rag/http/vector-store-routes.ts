/** OpenAI's vector stores: create, list, retrieve, update, delete, search. */
import type { FastifyInstance } from "fastify";
import { parseRequest } from "#server";
import { deletedBody, storeBody } from "./bodies.ts";
import { pageBody, pageOf, pageRequest } from "./page.ts";
import type { StoreRecord } from "./records.ts";
import { chunkingOf, SearchRequest, StoreCreation, StoreUpdate } from "./request-params.ts";
import type { RouteParts } from "./route-parts.ts";
import type { StoreFields } from "./vector-stores.ts";

/** Parameters of a path below a store. */
interface StoreParams {
  readonly Params: { readonly store: string };
}

const PAGE = { kind: "store", limitDefault: 20, limitMax: 100 } as const;

export function vectorStoreRoutes(app: FastifyInstance, parts: RouteParts): void {
  const { stores, admit } = parts;
  const shown = (store: StoreRecord) => bodyOf(store, parts);
  app.post("/v1/vector_stores", (request, reply) =>
    admit(request, reply, async () => shown(await createStore(request.body ?? {}, parts))),
  );
  app.get("/v1/vector_stores", async ({ query }) =>
    pageBody(pageOf(stores.list(), pageRequest(query, PAGE)), shown),
  );
  app.get<StoreParams>("/v1/vector_stores/:store", async ({ params }) =>
    shown(stores.get(params.store)),
  );
  app.post<StoreParams>("/v1/vector_stores/:store", (request, reply) =>
    admit(request, reply, async () => {
      const fields = updateOf(request.body);
      return shown(await stores.update(stores.get(request.params.store), fields));
    }),
  );
  app.delete<StoreParams>("/v1/vector_stores/:store", (request, reply) =>
    admit(request, reply, async () => {
      const store = stores.get(request.params.store);
      await stores.remove(store);
      return deletedBody(store.id, "vector_store.deleted");
    }),
  );
  app.post<StoreParams>("/v1/vector_stores/:store/search", (request, reply) =>
    admit(request, reply, async (signal) => {
      const wanted = parseRequest(SearchRequest, request.body);
      return parts.search.page(stores.use(stores.get(request.params.store)), wanted, signal);
    }),
  );
}

function bodyOf(store: StoreRecord, { stores }: RouteParts) {
  const times = { lastActiveAt: stores.lastActiveAt(store), expiresAt: stores.expiresAt(store) };
  return storeBody(store, { counts: stores.files.counts(store), ...times });
}

async function createStore(body: unknown, { stores }: RouteParts): Promise<StoreRecord> {
  const request = parseRequest(StoreCreation, body);
  const chunking = chunkingOf(request.chunking_strategy ?? null);
  const members = (request.file_ids ?? []).map((fileId) => {
    return { fileId, attributes: {}, chunking };
  });
  const fields = {
    name: request.name ?? "",
    description: request.description ?? null,
    metadata: request.metadata ?? {},
    expiresAfterDays: request.expires_after?.days ?? null,
  };
  return await stores.create(fields, members);
}

/** Fields that a request leaves out stay; null clears them. */
function updateOf(body: unknown): Partial<StoreFields> {
  const { name, metadata, expires_after: expires } = parseRequest(StoreUpdate, body);
  return {
    ...(name !== undefined && { name: name ?? "" }),
    ...(metadata !== undefined && { metadata: metadata ?? {} }),
    ...(expires !== undefined && { expiresAfterDays: expires?.days ?? null }),
  };
}
