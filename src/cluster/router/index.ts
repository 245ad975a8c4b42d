/**
 * cluster/router: one OpenAI address for many workers.
 *
 * A request is read once (generation-request.ts), a worker is chosen (#cluster/routing), and the
 * worker's answer is relayed as bytes. Where the worker fails, another one takes over: before the
 * first token by starting again, behind it by going on from the generated tokens.
 *
 *   router.ts             starts and stops a router
 *   config.ts             options
 *   app.ts                the HTTP application; context.ts: what its routes share
 *   relay-route.ts        routes that a worker answers; client-key.ts: whose request it is
 *   response-workers.ts   which worker keeps a response, and whose it is; response-routes.ts: it is
 *                         asked for it
 *   ollama-workers.ts     which workers speak Ollama's API; ollama-routes.ts: what its clients ask
 *                         first
 *   relay.ts              one request: attempts until it is answered; attempt.ts: one of them;
 *                         relay-metrics.ts counts
 *   waiting-room.ts       where requests wait while all workers are full; queue-metrics.ts counts
 *   relay-order.ts, relay-answers.ts   what a relay is made of, and what comes of it
 *   generation-request.ts, worker-body.ts   what a client sent, and what a worker gets
 *   client-stream.ts      the client's side of a stream; answer-buffer.ts: an answer that is held
 *   stream-reader.ts      a worker's stream; marker-reader.ts: with tokens told beside the events
 *   upstream.ts           connections to a worker (direct-reads.ts: read without a queue,
 *                         chunk-framing.ts: and without a whole parser);
 *                         worker-links.ts: to all of them; direct-writes.ts: to a client
 *   native-relay.ts       lends both connections to a native thread while an answer is plain
 *                         (relay-library.ts: its calls; native/relay)
 *   breaker.ts            keeps requests away from a worker that fails; sweep.ts: deadlines
 *   prompt-reader.ts      prompts as ids: by model-codecs.ts, by remote-tokens.ts of a worker
 *                         (tokenize-routes.ts: how engines are asked), or text-tokens.ts where
 *                         nothing is known; ask-worker.ts: small questions
 *   token-watch.ts        compares what workers announce with what was computed of prompts
 *   fleet-caches.ts       the index, fed by the workers; hit-watch.ts: what it knew,
 *                         prompt-usage.ts: and what workers say of it
 *   models-route.ts, operations.ts, explain.ts, kv-events-route.ts, fleet-metrics.ts,
 *   worker-metrics.ts     routes that the router answers itself; status-watch.ts: lines for the log
 *   fleet-page.ts         the page at /, and the stream of what the router sees
 *   roles-route.ts        an operator changes roles of workers: role-orders.ts, one list at a time;
 *                         role-news.ts asks and tells workers; role-balancer.ts: the conductor does
 *                         (told-loads.ts: with other routers, role-balancer-metrics.ts counts);
 *                         role-parts.ts makes them
 *   kv-fills.ts           tells workers that give memory alone what to fetch; fill-queue.ts: orders
 *                         that wait, fill-metrics.ts counts
 *   shared-loads.ts       load that several routers see
 *   parts.ts              makes and joins all that; secrets.ts
 *
 * Invariant: a request that was begun is ended in its worker's books, whichever way it ends.
 * Invariant: nothing is sent to a client twice; events of a stream are not parsed.
 *
 * @module
 */
export { RouterOptions } from "./config.ts";
export { type RunningRouter, startRouter } from "./router.ts";
export type { RouterSecrets } from "./secrets.ts";
