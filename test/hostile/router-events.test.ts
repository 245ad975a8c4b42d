import { expect, test } from "vitest";
import { full, sized } from "../support/full.ts";
import { runHostileEvents } from "./router-events-run.ts";
import { plant, type Weakness } from "./weaknesses.ts";

const batches = sized(100, 10_000);
const timeout = sized(5, 30) * 60_000;

test(`[CL133] ${batches} hostile batches of each dialect harm no router's process`, {
  timeout,
}, async () => {
  const { problems } = await runHostileEvents(".", batches);
  expect(problems).toEqual([]);
});

const NONE = { cases: [], foundBy: [], quick: true } as const;

/** What the check above must find. */
const WEAKNESSES: readonly (Weakness & { readonly shows: RegExp })[] = [
  {
    ...NONE,
    name: "every strange event has a line of its own",
    changes: [{ file: "cluster/feeds/paced-warnings.js", find: "< PACE_MS", put: "< 0" }],
    shows: /\d lines/,
  },
  {
    ...NONE,
    name: "what a batch throws leaves its feed",
    changes: [
      {
        file: "cluster/feeds/zmq-feed.js",
        find: 'this.#say(warnings, "event", messageOf(error));',
        put: "setImmediate(() => { throw error; });",
      },
    ],
    shows: /it has ended/,
  },
];

test.skipIf(!full).each(WEAKNESSES)(
  "the check finds a planted weakness: $name",
  { timeout },
  async (weakness) => {
    const { root, remove } = plant(weakness);
    try {
      const { problems } = await runHostileEvents(root, 300);
      expect(problems.join("\n")).toMatch(weakness.shows);
    } finally {
      remove();
    }
  },
);
