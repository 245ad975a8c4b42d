/** The live page of a server: what it shows of the engine and of its cache. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { shortText } from "#base";
import type { PrefixPicture } from "#engine";
import { holdsKey } from "../access.ts";
import type { ServerContext } from "../context.ts";
import { EventStream } from "../event-stream.ts";
import { HttpError } from "../http-errors.ts";
import { type FeedParts, LiveFeed, namedEvent, TICK_MS } from "./live-feed.ts";
import { queryNumber, queryText } from "./query-number.ts";
import { TreeLook } from "./tree-look.ts";
import type { View } from "./viewers.ts";

/** Runs of one picture, by default and at most. */
const RUNS_DEFAULT = 160;
const RUNS_MAX = 400;
const NODE_MAX = 2 ** 31 - 1;
/** Of the end of a prefix. */
const TEXT_TOKENS_MAX = 1024;

/** Registers the page's stream and its questions; `askOthers`: see `FeedParts`. */
export function dashboardRoutes(
  app: FastifyInstance,
  context: ServerContext,
  { askOthers }: Pick<FeedParts, "askOthers">,
): void {
  const { model, config, admission } = context;
  const feed = new LiveFeed({
    ...{ model, viewersMax: config.dashboardViewersMax, askOthers },
    requestsInWork: () => admission.runningCount,
  });
  const tree = new TreeLook(model);
  app.get("/dashboard/events", { exposeHeadRoute: false }, (request, reply) =>
    follow(context, feed, { request, reply }),
  );
  app.get("/dashboard/prefixes", { exposeHeadRoute: false }, async ({ query }) => {
    const runsMax = Math.max(1, queryNumber(query, "runs", RUNS_MAX) ?? RUNS_DEFAULT);
    const look = await tree.look({ prefixes: { root: nodeOf(query), runsMax } });
    return { picture: look.prefixes === null ? null : pictureJson(look.prefixes) };
  });
  app.get("/dashboard/text", { exposeHeadRoute: false }, async (request) =>
    prefixText(context, tree, request),
  );
  // Streams end before their connections are closed: pages see an end, not a failure.
  app.addHook("preClose", async () => {
    feed.close();
    await new Promise((resolve) => setImmediate(resolve));
  });
}

/** Who may read texts of prompts, and change things. Without admin keys: no request may. */
export function isAdmin(request: FastifyRequest, { config }: ServerContext): boolean {
  return config.adminKey.length > 0 && holdsKey(request, config.adminKey);
}

async function follow(
  context: ServerContext,
  feed: LiveFeed,
  { request, reply }: { readonly request: FastifyRequest; readonly reply: FastifyReply },
): Promise<FastifyReply> {
  const view = viewOf(request.query);
  feed.checkRoom();
  reply.hijack();
  const stream = new EventStream(reply.raw, {
    headers: reply.getHeaders(),
    keepAliveMs: context.config.streamKeepAliveMs,
  });
  stream.send(namedEvent("hello", hello(request, context)));
  const leave = feed.join(stream, view);
  reply.raw.once("close", leave);
  if (reply.raw.destroyed || request.raw.socket.destroyed) leave();
  return reply;
}

function viewOf(query: unknown): View {
  const given = queryText(query, "view");
  if (given === undefined || given === "now") return "now";
  if (given === "cache") return given;
  throw new HttpError(
    400,
    "invalid_argument",
    `Cannot watch: view must be now or cache, current value is ${shortText(String(given))}`,
  );
}

/** What does not change while the page is open. */
function hello(request: FastifyRequest, context: ServerContext): unknown {
  const { model, modelNames, version, config, extension } = context;
  const { info } = model;
  return {
    kind: "server",
    version,
    tickMs: TICK_MS,
    models: modelNames,
    model: {
      name: info.name,
      architecture: info.architecture,
      kind: info.kind,
      device: info.device,
      parameters: info.parameters,
      contextTokensMax: info.contextTokensMax,
      weightFormat: info.weightFormat,
      kvFormat: info.kvFormat,
      blockTokens: info.blockTokens,
      bytesPerBlock: info.bytesPerBlock,
      hasChat: info.hasChatTemplate && info.kind === "decoder",
      drafts: info.speculative?.kind ?? null,
    },
    canLook: model.look !== undefined,
    /** Texts of prefixes: whether this key may read them, and whether some key may. */
    admin: isAdmin(request, context),
    hasAdmin: config.adminKey.length > 0,
    hasVectorStores: extension !== null,
  };
}

/** Null: the whole tree. */
function nodeOf(query: unknown): { node: number; serial: number } | null {
  const node = queryNumber(query, "node", NODE_MAX);
  const serial = queryNumber(query, "serial", NODE_MAX);
  return node === null || serial === null ? null : { node, serial };
}

/** Runs as rows: a picture has hundreds. */
function pictureJson({ runs, ...rest }: PrefixPicture): unknown {
  return {
    ...rest,
    runs: runs.map(({ segments, ...run }) => ({
      ...run,
      segments: segments.map(({ contents, level, held, priority }) => [
        ...[contents, level, held ? 1 : 0, priority],
      ]),
    })),
  };
}

/** The end of a prefix as text: what was said to the model, for those with an admin key alone. */
async function prefixText(
  context: ServerContext,
  tree: TreeLook,
  request: FastifyRequest,
): Promise<unknown> {
  if (!isAdmin(request, context)) {
    throw new HttpError(
      403,
      "forbidden",
      "Cannot show texts of prompts: an admin key must be given, current value is none or " +
        "another key; start the server with adminKey (--admin-key-file) and give one of its keys",
    );
  }
  const named = nodeOf(request.query);
  if (named === null) {
    const message = "Cannot show a text: node and serial must be given, current value is none";
    throw new HttpError(400, "invalid_argument", message);
  }
  const { tokens } = await tree.look({ tokens: { ...named, tokensMax: TEXT_TOKENS_MAX } });
  if (tokens === null) return { text: null, tokens: 0, skipped: 0 };
  const text = context.model.codec?.decode(tokens.tokenIds, { skipSpecialTokens: false }) ?? null;
  return { text, tokens: tokens.tokenIds.length, skipped: tokens.skipped };
}
