/**
 * node bench/cluster/conductor-cost.mjs [--out FILE]
 *
 * Processor time of one decision of the conductor, and of booking and ending it, at 16, 128 and
 * 1024 instances, half of them prefill; every eighth has a part of the prompt.
 */
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { fileURLToPath } from "node:url";
import { Conductor, ConductorConfig, seededRng } from "../../dist/cluster/index.js";
import { readFlags } from "../../tools/flags.mjs";
import { describeMachine } from "../machine.mjs";

const root = fileURLToPath(new URL("../..", import.meta.url));
const { values: flags } = readFlags({
  options: { out: { type: "string", published: `${root}bench/results/conductor-cost.json` } },
});
const ROUNDS = 7;
const DECISIONS = 2000;
const OPEN = 200;

function measure(instances) {
  let nowMs = 0;
  const conductor = new Conductor({
    ...{ clock: { nowMs: () => nowMs }, rng: seededRng(1), bytesPerToken: 327_680 },
    config: ConductorConfig.parse({ ttftDeadlineMs: 1e8, tbtDeadlineMs: 1e8 }),
  });
  for (let at = 0; at < instances; at++) {
    const role = at % 2 === 0 ? "prefill" : "decode";
    conductor.join({ id: `i${at}`, role, kvTokens: 1e9, networkBytesPerMs: 87e6 });
  }
  const held = Array.from({ length: Math.ceil(instances / 8) }, (_, at) => ({
    instance: 8 * at,
    tokens: 512 * (1 + (at % 20)),
  }));
  const open = [];
  const decideOnce = (at) => {
    nowMs += 5;
    const asked = { id: "r", promptTokens: 4000 + ((at * 7919) % 20_000), outputTokens: null };
    return conductor.decide(asked, held);
  };
  const round = () => {
    let startUs = process.cpuUsage().user;
    for (let at = 0; at < DECISIONS; at++) decideOnce(at);
    const decideUs = (process.cpuUsage().user - startUs) / DECISIONS;
    startUs = process.cpuUsage().user;
    for (let at = 0; at < DECISIONS; at++) {
      const booking = conductor.book(decideOnce(at));
      booking.prefilled();
      booking.decoding();
      open.push(booking);
      if (open.length > OPEN) open.shift().ended(300);
    }
    return { decideUs, wholeUs: (process.cpuUsage().user - startUs) / DECISIONS };
  };
  const rounds = Array.from({ length: ROUNDS }, round);
  const median = (field) =>
    Number(
      rounds
        .map((one) => one[field])
        .sort((a, b) => a - b)
        [ROUNDS >> 1].toFixed(2),
    );
  return { instances, decideUs: median("decideUs"), decideAndBookUs: median("wholeUs") };
}

const report = {
  command: "node bench/cluster/conductor-cost.mjs",
  machine: describeMachine(),
  note: `medians of ${ROUNDS} rounds of ${DECISIONS} decisions, processor time`,
  rows: [16, 128, 1024].map(measure),
};
for (const row of report.rows) console.log(JSON.stringify(row));
mkdirSync(dirname(flags.out), { recursive: true });
writeFileSync(flags.out, `${JSON.stringify(report, null, 1)}\n`);
