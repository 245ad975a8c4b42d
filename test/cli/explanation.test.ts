/** What `perigee route --explain` prints of a router's answer. */
import { expect, test } from "vitest";
import { explanationText } from "../../src/cli/explanation.ts";
import { json } from "../support/json.ts";
import { closeRouters, routeToys } from "../support/router-fleet.ts";
import { closeToyServers } from "../support/toy-server.ts";

closeRouters();
closeToyServers();

type Answer = Parameters<typeof explanationText>[0];
const chat = { model: "toy", messages: [{ role: "user", content: "hi" }] };

/** An answer of a router, of which nothing but the conductor's part matters. */
function answerOf(conductor: Answer["conductor"]): Answer {
  return {
    ...{ policy: "kv", prompt_tokens: 2000, tokens_from: "router", chosen: "d1", reason: "load" },
    ...{ unrouted: null, workers: [], ...(conductor !== undefined && { conductor }) },
  };
}

const DECISION = {
  ...{ decision: "accepted" as const, prefill: "p2", decode: "d1", predicted_ttft_ms: 212.3 },
  ...{ predicted_tbt_ms: 9.25, prefill_load: null, decode_load: null },
  transfer: { from: "p1", start_tokens: 512, end_tokens: 1024 },
} as const;
const computing = (id: string, queueMs: number) => ({
  ...{ id, queue_ms: queueMs, transfer_ms: 12, prefill_ms: 100, ttft_ms: queueMs + 112 },
  ...{ own_prefix_tokens: 512, used_prefix_tokens: 1024 },
});
const PREFILL = [computing("p1", 300), computing("p2", 100.3)];
const NO_DEADLINES = { ttft: null, tbt: null };
const DECODE = [
  { id: "d1", requests: 3, tbt_ms: 9.25, has_room: true },
  { id: "d2", requests: 40, tbt_ms: 12.5, has_room: false },
];

test("[CL260] of a fleet with pools it prints each worker's terms, and who gets which part", () => {
  const text = explanationText(answerOf({ decision: DECISION, prefill: PREFILL, decode: DECODE }));
  const [first = "", second] = text.split("\nconductor: ");
  expect(first).toMatch(/^among pools the conductor decides, below; by cost alone: d1 \(load\)\n/);
  expect(`conductor: ${second}`).toBe(
    [
      "conductor: p2 computes the prompt, d1 decodes, tokens 512 to 1024 come from p1; " +
        "predicted 212.30 ms to the first token, 9.25 ms between tokens",
      "",
      "worker    gets  prefix tokens  queue ms  transfer ms  prefill ms  ttft ms  requests  tbt ms",
      "p1                   512/1024    300.00        12.00      100.00   412.00         -       -",
      "p2      prompt       512/1024    100.30        12.00      100.00   212.30         -       -",
      "d1      tokens              -         -            -           -        -         3    9.25",
      "d2                          -         -            -           -        -        40   12.50  full",
      "",
    ].join("\n"),
  );
});

test("[CL260] of a request that is rejected it prints why, and when to try again", () => {
  const { transfer: _, ...rest } = DECISION;
  const decision = {
    ...{ ...rest, decision: "rejected" as const, prefill_load: 1.5, decode_load: null },
    ...{ reason: "ttft", retry_after_ms: 1200 },
  } as const;
  const prefill = [computing("d1", 300)];
  const deadlines_ms = { ttft: 200, tbt: 40 };
  const decode = DECODE.slice(0, 1);
  const text = explanationText(answerOf({ decision, deadlines_ms, prefill, decode }));
  expect(text).toContain(
    "the conductor rejects it (ttft): predicted 212.30 ms to the first token (load 1.50, " +
      "deadline 200 ms), 9.25 ms between tokens (load not known, deadline 40 ms), try again in 1200 ms\n",
  );
});

test("[CL260] where workers do both and nothing has a deadline it says no more than the policy", () => {
  const { transfer: _, ...rest } = DECISION;
  const decision = { ...rest, prefill: "d1" };
  const prefill = [computing("d1", 1)];
  const same = { decision, deadlines_ms: NO_DEADLINES, prefill, decode: DECODE.slice(0, 1) };
  const alone = explanationText(answerOf(undefined));
  for (const answer of [answerOf(null), answerOf(same)]) {
    expect(explanationText(answer)).toBe(alone);
  }
});

test("[CL260] names of workers move no cursor", () => {
  const nasty = { decision: DECISION, prefill: [computing("p\u001b[2J", 1)], decode: DECODE };
  expect(explanationText(answerOf(nasty))).not.toContain("\u001b");
});

test("[CL260] a router with deadlines answers what is printed", async () => {
  const toys = [{ defaultName: "toy" }, { defaultName: "toy" }];
  const { post, workers } = await routeToys(toys, { ttftDeadline: 60_000 });
  const text = explanationText((await json(await post("/route/explain", chat))) as never);
  expect(text).toMatch(
    /\nconductor: http:\S+ computes and decodes it; .*load not known, deadline 60000 ms/,
  );
  for (const { server } of workers) expect(text.split(server.url).length).toBeGreaterThan(2);
  expect(text).toContain("prompt+tokens");

  const plain = await routeToys(toys);
  const without = explanationText((await json(await plain.post("/route/explain", chat))) as never);
  expect(without).not.toContain("conductor");
  // A deadline of the request's own counts, too.
  const own = { ...chat, deadlines: { tbt_ms: 40 } };
  const its = explanationText((await json(await plain.post("/route/explain", own))) as never);
  expect(its).toContain("ms between tokens (load not known, deadline 40 ms)");
});
