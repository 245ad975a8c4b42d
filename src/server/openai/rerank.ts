/** POST /v1/rerank, /rerank and /v2/rerank, in the forms of Jina, vLLM and Cohere. */
import { z } from "zod";
import type { Call, ServerContext } from "../context.ts";
import type { CallHandler } from "../generation-route.ts";
import type { Answer } from "./answer.ts";
import { checkModelName } from "./delivery.ts";
import { ignored, unsupported } from "./fields.ts";
import {
  scoreFields,
  scoresOf,
  type TextField,
  textField,
  textsField,
  wordsOf,
} from "./pair-scores.ts";
import { parseRequest } from "./parse-request.ts";

/** Body of the routes that rerank. */
export const RerankRequest = z.strictObject({
  ...scoreFields,
  query: textField,
  documents: textsField,
  /** The best so many alone; 0, as in vLLM: all. */
  top_n: z.int().nonnegative().nullish(),
  return_documents: z.boolean().nullish(),
  rank_fields: unsupported(),
  max_chunks_per_doc: unsupported(),
  max_tokens_per_doc: unsupported(),
  /** Jina's. */
  truncation: ignored,
});
export type RerankRequest = z.output<typeof RerankRequest>;

/** How the forms differ. */
interface RerankForm {
  /** Documents are in the answer unless the request says otherwise. */
  readonly returnsDocuments: boolean;
  /** Further fields of the answer. */
  readonly fields: object;
}

/** Jina's and vLLM's. */
export const rerank: CallHandler = reranker({ returnsDocuments: true, fields: {} });

/** Cohere's second version. */
export const rerankV2: CallHandler = reranker({
  returnsDocuments: false,
  fields: { meta: { api_version: { version: "2" } } },
});

function reranker(form: RerankForm): CallHandler {
  return async (context, body, call) =>
    answer(context, parseRequest(RerankRequest, body), call, form);
}

async function answer(
  context: ServerContext,
  request: RerankRequest,
  call: Call,
  { returnsDocuments, fields }: RerankForm,
): Promise<Answer> {
  checkModelName(context, request.model);
  const { documents } = request;
  const pairs = { queries: [wordsOf(request.query)], texts: documents.map(wordsOf) };
  const scores = await scoresOf(context, pairs, { request, call });
  // Of equal scores the earlier document comes first: sorting is stable.
  const ranked = scores
    .map(({ score }, index) => ({ index, relevance_score: score }))
    .sort((a, b) => b.relevance_score - a.relevance_score)
    .slice(0, request.top_n || documents.length);
  const isReturned = request.return_documents ?? returnsDocuments;
  const { prompt_tokens, total_tokens } = call.usage.usage();
  const value = {
    id: `rerank-${call.id}`,
    object: "list",
    created: call.created,
    model: request.model ?? context.modelNames[0],
    results: ranked.map((hit) => (isReturned ? withDocument(hit, documents) : hit)),
    usage: { prompt_tokens, total_tokens },
    ...fields,
  };
  return { kind: "json", value };
}

function withDocument<Hit extends { readonly index: number }>(
  hit: Hit,
  documents: readonly TextField[],
) {
  const document = documents[hit.index] ?? "";
  return { ...hit, document: { text: wordsOf(document) } };
}
