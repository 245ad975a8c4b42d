/**
 * node bench/cluster/route-cost.mjs [--out FILE]
 *
 * Processor time of routing one request at 16, 128 and 1024 workers, from a query with its tokens
 * to its booking: index, books and policy alone, the same with deadlines, and with pools, half of
 * the workers prefill. Beginnings are shared by every eighth request, and are where these went.
 */
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { fileURLToPath } from "node:url";
import {
  ConductorConfig,
  Dispatcher,
  FleetConductor,
  FleetIndex,
  IndexedPrefixes,
  seededRng,
} from "../../dist/cluster/index.js";
import { readFlags } from "../../tools/flags.mjs";
import { describeMachine } from "../machine.mjs";

const root = fileURLToPath(new URL("../..", import.meta.url));
const { values: flags } = readFlags({
  options: { out: { type: "string", published: `${root}bench/results/route-cost.json` } },
});
const ROUNDS = 7;
const BLOCK_TOKENS = 16;
const PROMPT_TOKENS = 4000;
const OPEN = 200;

function workerOf(id, role) {
  return {
    ...{ id, epoch: "e", url: `http://${id}`, kind: "perigee", version: "0", models: ["m"], role },
    ...{ fingerprint: "f", contextTokensMax: 0, transfer: { host: "h", port: 1 } },
    kv: { blockTokens: BLOCK_TOKENS, blocks: [1e6], groupWindows: [null] },
  };
}

function fleetOf(workers, mode) {
  let nowMs = 0;
  const clock = { nowMs: () => nowMs };
  const infos = Array.from({ length: workers }, (_, at) =>
    workerOf(`w${at}`, mode === "pools" && at % 2 === 0 ? "prefill" : "decode"),
  );
  const members = new Map(infos.map((info) => [info.id, { info, state: "ready" }]));
  const membership = { workers: members, heardMs: 0, listen: () => () => {} };
  const index = new FleetIndex({ clock });
  const numbers = new Map(infos.map(({ id }) => [id, index.join({ announces: false })]));
  const prefixes = new IndexedPrefixes({
    ...{ clock, ledger: { expect: () => {}, record: () => {} } },
    placeOf: ({ id }) => ({
      ...{ lookup: index, number: numbers.get(id), model: "m" },
      ...{ blockTokens: BLOCK_TOKENS, announces: false },
    }),
  });
  const watch = { decided: () => {}, firstToken: () => {}, gap: () => {} };
  const config = ConductorConfig.parse({
    ...{ policy: "local", ttftDeadlineMs: 1e8, tbtDeadlineMs: 1e8 },
  });
  const planner = new FleetConductor({
    ...{ membership, clock, rng: seededRng(1), config, watch, usesPools: true },
  });
  const dispatcher = new Dispatcher({
    ...{ membership, prefixes, policy: "kv", clock, rng: seededRng(1) },
    ...(mode === "policy" ? {} : { planner }),
  });
  return { dispatcher, advance: () => (nowMs += 5) };
}

function queryOf(at) {
  const tokens = Uint32Array.from({ length: PROMPT_TOKENS }, (_, place) =>
    place < 512 * (1 + (at % 8)) ? place : at * 7919 + place,
  );
  return {
    ...{ id: `r${at}`, model: "m", promptTokens: PROMPT_TOKENS, outputTokens: null, tokens },
    ...{ session: null, salt: null, lora: null, prefixHash: [1, 2], excluded: new Set() },
    mayFetch: true,
  };
}

function measure(workers, mode, requests) {
  const { dispatcher, advance } = fleetOf(workers, mode);
  const queries = Array.from({ length: requests }, (_, at) => queryOf(at));
  const open = [];
  const serve = (query) => {
    advance();
    const routed = dispatcher.route(query);
    if (routed.type !== "routed") throw new Error(routed.reason);
    routed.reservation.tokens(1);
    routed.served(0);
    open.push(routed.reservation);
    if (open.length > OPEN) open.shift().end("ended");
  };
  const round = () => {
    const startUs = process.cpuUsage().user;
    for (const query of queries) serve(query);
    return (process.cpuUsage().user - startUs) / requests;
  };
  round();
  const rounds = Array.from({ length: ROUNDS }, round).sort((a, b) => a - b);
  return Math.round(rounds[ROUNDS >> 1]);
}

const results = [16, 128, 1024].map((workers) => {
  const requests = workers > 500 ? 100 : 400;
  const row = { workers };
  for (const mode of ["policy", "deadlines", "pools"]) {
    row[`${mode}Us`] = measure(workers, mode, requests);
  }
  return row;
});
const report = {
  command: "node bench/cluster/route-cost.mjs",
  machine: describeMachine(),
  note: `medians of ${ROUNDS} rounds, processor time of a request of ${PROMPT_TOKENS} tokens`,
  results,
};
mkdirSync(dirname(flags.out), { recursive: true });
writeFileSync(flags.out, `${JSON.stringify(report, null, 2)}\n`);
process.stdout.write(`${JSON.stringify(results, null, 2)}\n`);
