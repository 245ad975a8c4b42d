/**
 * perigee/server: serves a loaded model over OpenAI's HTTP API.
 *
 * One request passes access checks and limits, admission, the body's schema and the engine; its
 * tokens become one JSON answer or a stream of events.
 *
 *   const llm = await LLM.load("models/pocket");
 *   const server = await startServer(llm, { port: 8000 });
 *
 * @module
 */
export { SamplingDefaults, ServerOptions } from "./config.ts";
export { type ErrorBody, HTTP_ERRORS } from "./http-errors.ts";
export { type ReservedServer, type RunningServer, reserveServer, startServer } from "./server.ts";
