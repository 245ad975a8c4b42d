/** What routers of other engines ask of a worker's load, and of its cache. */
import type { FastifyInstance } from "fastify";
import type { ServerContext } from "./context.ts";
import { HttpError } from "./http-errors.ts";

/** SGLang's `/get_load` and its successor `/v1/loads`; vLLM's and SGLang's orders to the cache. */
export function loadRoutes(app: FastifyInstance, context: ServerContext): void {
  app.get("/get_load", async () => [queueLoad(context)]);
  for (const path of ["/loads", "/v1/loads"]) app.get(path, async () => loads(context));
  for (const path of ["/reset_prefix_cache", "/flush_cache"]) {
    app.post(path, async (_request, reply) => {
      await forgetCached(context);
      return reply.code(200).send();
    });
  }
}

/** One entry for each rank. */
function queueLoad({ model }: ServerContext) {
  const { running, waiting, heldBlocks } = model.stats();
  return {
    dp_rank: 0,
    num_reqs: running + waiting,
    num_waiting_reqs: waiting,
    num_tokens: heldBlocks * model.info.blockTokens,
  };
}

function loads({ model, version }: ServerContext): unknown {
  const stats = model.stats();
  const { blockTokens } = model.info;
  const { totalBlocks, heldBlocks, prefixQueriedTokens, prefixHitTokens } = stats;
  const shares = {
    token_usage: totalBlocks === 0 ? 0 : heldBlocks / totalBlocks,
    cache_hit_rate: prefixQueriedTokens === 0 ? 0 : prefixHitTokens / prefixQueriedTokens,
  };
  const counts = {
    num_running_reqs: stats.running,
    num_waiting_reqs: stats.waiting,
    num_total_reqs: stats.running + stats.waiting,
    num_used_tokens: heldBlocks * blockTokens,
    num_waiting_uncached_tokens: stats.uncomputedTokens,
    max_total_num_tokens: totalBlocks * blockTokens,
  };
  return {
    version,
    dp_rank_count: 1,
    loads: [{ dp_rank: 0, ...counts, ...shares }],
    aggregate: {
      total_running_reqs: stats.running,
      total_waiting_reqs: stats.waiting,
      total_reqs: counts.num_total_reqs,
      avg_token_usage: shares.token_usage,
    },
  };
}

/** An empty cache slows all others down: it needs a key. */
async function forgetCached({ model, config }: ServerContext): Promise<void> {
  if (config.apiKey.length === 0) {
    throw new HttpError(
      403,
      "forbidden",
      "Cannot reset the cache: the server must have an API key, current value is none; start it " +
        "with apiKey (--api-key-file)",
    );
  }
  if (model.forgetCached === undefined) {
    const message = "Cannot reset the cache: the model must have one, this one has none";
    throw new HttpError(501, "not_supported", message);
  }
  await model.forgetCached();
}
