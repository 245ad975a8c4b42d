/**
 * The live page of a Perigee server, or of a router: what runs now, what the cache has, a chat to
 * try it with, and the fleet.
 *
 *   app.tsx       the frame: parts of the page, the key, the state of the connection
 *   feed.ts       the stream of the server's state, read with a key
 *   messages.ts   what the server sends
 *   now/          requests, tokens, latencies and steps
 *   cache/        blocks of each level, the prefix tree
 *   chat/         conversations with branches
 *   fleet/        workers of a router, and its decisions
 *
 * Invariant: text of prompts, answers, tools and files becomes text nodes, never markup.
 * Invariant: what is kept of the stream is bounded: rings of numbers, short lists.
 *
 * @module
 */
import { render } from "preact";
import { App } from "./app.tsx";
import "uplot/dist/uPlot.min.css";
import "./style.css";

const page = document.getElementById("page");
if (page !== null) {
  page.replaceChildren();
  render(<App />, page);
}
