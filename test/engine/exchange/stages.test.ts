/** Blocks of an engine with several stages, each of which sends its own layers'. */
import { expect, onTestFinished, test } from "vitest";
import { LLM, type LoadOptions } from "#engine";
import { decodeAnswer, encodeAnswer } from "../../../src/engine/exchange/block-ask.ts";
import type { PeerPort, PortRead } from "../../../src/engine/exchange/peer-port.ts";
import { PeerTraffic } from "../../../src/engine/exchange/peer-traffic.ts";
import { FleetProcess } from "../../support/fleet-process.ts";
import { eachNth } from "../../support/full.ts";
import { json } from "../../support/json.ts";
import { isAlive } from "../../support/process-alive.ts";
import { allStagesOf, stagesOf } from "../../support/stage-processes.ts";
import { until } from "../../support/until.ts";

const OPTIONS: LoadOptions = { device: "cpu", dtype: "float32", threads: 1 };
const ASKED = { maxTokens: 6, temperature: 0, ignoreEos: true, logprobs: 3 } as const;
const promptOf = (first: number, tokens = 400) =>
  Array.from({ length: tokens }, (_, place) => 300 + ((first + place * 104_729) % 3000));

function loadStages(stages: number): Promise<LLM> {
  return LLM.load("models/pocket", {
    ...OPTIONS,
    pipeline: { stages, chunkTokens: 64 },
    scheduler: { runningSequencesMax: 16 },
    kvTransfer: { secrets: ["a secret that all engines of the fleet know"] },
  });
}

async function source(llm: LLM, compute = true) {
  const { kvAddress } = llm.info;
  if (kvAddress === null) throw new Error("An engine that gives blocks is wanted");
  return { ...kvAddress, compute };
}

test.for(eachNth(2, [2, 3]))(
  "[TR69] an engine gets each layer's keys and values from the stage that computed them: %i stages",
  { timeout: 60_000 },
  async (stages) => {
    await using alone = await LLM.load("models/pocket", OPTIONS);
    await using decode = await LLM.load("models/pocket", {
      ...OPTIONS,
      kvTransfer: { secrets: ["a secret that all engines of the fleet know"] },
    });
    await using prefill = await loadStages(stages);
    expect(prefill.info.fingerprint).toBe(decode.info.fingerprint);
    expect(prefill.info.bytesPerBlock).toBe(decode.info.bytesPerBlock);
    const kvSource = await source(prefill);
    const answers: unknown[] = [];
    for (const first of [0, 1, 2]) {
      const prompt = [{ promptTokenIds: promptOf(first) }];
      const [expected] = await alone.generate(prompt, ASKED);
      answers.push(expected?.completions);
      const [found] = await decode.generate(prompt, { ...ASKED, kvSource });
      expect(found?.completions).toEqual(expected?.completions);
    }
    // All but the last token of each prompt came from the stages.
    expect(decode.stats().computedPromptTokens).toBe(3);
    // What they have stored is given as well, to an engine that has lost it.
    await decode.forgetCached();
    const [again] = await decode.generate([{ promptTokenIds: promptOf(0) }], {
      ...ASKED,
      kvSource: await source(prefill, false),
    });
    expect(again?.completions).toEqual(answers[0]);
    expect(decode.stats().computedPromptTokens).toBeLessThan(3 + 20);
  },
);

test("[TR69] a prefill worker of two stages serves a decode worker, and ends with its stages", {
  timeout: 60_000,
}, async () => {
  const words = ["--device", "cpu", "--dtype", "float32", "--threads", "1"];
  const worker = await FleetProcess.start([
    ...["worker", "--port", "0", "--role", "prefill", "--pipeline-stages", "2"],
    ...["--pipeline-chunk-tokens", "256", ...words],
  ]);
  let stages: number[] = [];
  try {
    const { transfer } = await json(await fetch(`${worker.url}/worker_info`));
    stages = stagesOf(worker.pid ?? 0);
    expect(stages).toHaveLength(1);
    const kvSource = {
      ...(transfer as unknown as { host: string; port: number }),
      compute: true,
    };
    await using alone = await LLM.load("models/pocket", OPTIONS);
    await using decode = await LLM.load("models/pocket", { ...OPTIONS, kvTransfer: {} });
    const prompt = [{ promptTokenIds: promptOf(5, 900) }];
    const [expected] = await alone.generate(prompt, ASKED);
    const [found] = await decode.generate(prompt, { ...ASKED, kvSource });
    expect(found?.completions).toEqual(expected?.completions);
    expect(decode.stats().computedPromptTokens).toBe(1);
  } finally {
    await worker.end("SIGTERM");
  }
  await until("the stage ends", () => !stages.some(isAlive));
});

test("[PP8] a worker that is killed leaves no stage behind", async () => {
  const words = ["worker", "--port", "0", "--device", "cpu", "--threads", "1"];
  const worker = await FleetProcess.start([...words, "--pipeline-stages", "3"]);
  const all = allStagesOf(worker.pid ?? 0);
  expect(all.filter(isAlive)).toHaveLength(2);
  await worker.end("SIGKILL");
  await until("all stages end", () => !all.some(isAlive));
});

/** Stages that are stopped cannot look whether the one before them is there. */
test.runIf(process.platform === "linux").each([
  ["the last one", (stages: readonly number[]) => stages.slice(-1)],
  ["all of them", (stages: readonly number[]) => stages],
])(
  "[PP19] a worker that is killed leaves no stage behind that hangs: %s",
  async (_, hanging) => {
    const words = ["worker", "--port", "0", "--device", "cpu", "--threads", "1"];
    const worker = await FleetProcess.start([...words, "--pipeline-stages", "3"]);
    const all = allStagesOf(worker.pid ?? 0);
    expect(all.filter(isAlive)).toHaveLength(2);
    onTestFinished(() => {
      for (const pid of all.filter(isAlive)) process.kill(pid, "SIGKILL");
    });
    for (const pid of hanging(all)) process.kill(pid, "SIGSTOP");
    await worker.end("SIGKILL");
    const killedMs = performance.now();
    await until("all stages end", () => !all.some(isAlive));
    // A stage that could still look waits 10 s for the one behind it.
    expect(performance.now() - killedMs).toBeLessThan(5000);
  },
  60_000,
);

test("[TR70] an engine of several stages fetches nothing, and computes what it is told to fetch", async () => {
  await using other = await LLM.load("models/pocket", {
    ...OPTIONS,
    kvTransfer: { secrets: ["a secret that all engines of the fleet know"] },
  });
  await using prefill = await loadStages(2);
  const prompt = [{ promptTokenIds: promptOf(7) }];
  const [expected] = await other.generate(prompt, ASKED);
  const kvSource = await source(other);
  const [found] = await prefill.generate(prompt, { ...ASKED, kvSource });
  expect(found?.completions).toEqual(expected?.completions);
  expect(prefill.stats().computedPromptTokens).toBe(400);
});

test("[TR71] a stage that dies costs the engine that fetches time only", {
  timeout: 60_000,
}, async () => {
  await using alone = await LLM.load("models/pocket", OPTIONS);
  await using decode = await LLM.load("models/pocket", {
    ...OPTIONS,
    onWarning: () => {},
    kvTransfer: { secrets: ["a secret that all engines of the fleet know"] },
  });
  await using prefill = await loadStages(2);
  const prompt = [{ promptTokenIds: promptOf(3, 1500) }];
  const [expected] = await alone.generate(prompt, ASKED);
  const asked = decode.generate(prompt, { ...ASKED, kvSource: await source(prefill) });
  process.kill(stagesOf(process.pid)[0] ?? 0, "SIGKILL");
  const [found] = await asked;
  expect(found?.completions).toEqual(expected?.completions);
});

test("[KV74] what is held is told when it is not any more, though no step follows", {
  timeout: 120_000,
}, async () => {
  await using decode = await LLM.load("models/pocket", {
    ...OPTIONS,
    kvTransfer: { secrets: ["a secret that all engines of the fleet know"] },
  });
  await using prefill = await loadStages(2);
  const held = () => prefill.stats().cache?.levels.map((level) => level.held);
  for (let round = 0; round < 8; round++) {
    const prompts = [100 * round, 100 * round + 17].map((first) => ({
      promptTokenIds: promptOf(first, 200),
    }));
    await decode.generate(prompts, { ...ASKED, kvSource: await source(prefill) });
    await expect.poll(held, { timeout: 5000 }).toEqual([0, 0]);
  }
});

test("[TR72] an answer names at most 63 further stages, each with an offer, a port and bytes", () => {
  const answer = { offer: "a", level: "host", port: 4000, blocks: 3, storedBlocks: 0 } as const;
  const part = { offer: "b", port: 4001, bytes: 100 };
  const round = (value: object) => decodeAnswer(encodeAnswer(value as typeof answer));
  expect(round(answer)).toEqual(answer);
  expect(round({ ...answer, parts: [part, part] })).toEqual({ ...answer, parts: [part, part] });
  for (const parts of [
    [],
    [part, { ...part, bytes: 0 }],
    [{ ...part, port: 70_000 }],
    [{ ...part, more: 1 }],
    [{ offer: "b", port: 4001 }],
    Array.from({ length: 64 }, () => part),
    "parts",
    null,
  ]) {
    expect(() => round({ ...answer, parts })).toThrow(/it is no answer/);
  }
});

test("[TR73] [KV73] pieces are cut where stages begin, and one that fails ends the reads of all", async () => {
  const reads: PortRead[] = [];
  const port = {
    read: (read: PortRead) => {
      reads.push(read);
      return new Promise<void>((resolve, reject) => {
        read.signal.addEventListener("abort", () => reject(new Error("aborted")));
        if (read.peer.port === 2) setTimeout(() => reject(new Error("gone")), 20);
        else setTimeout(resolve, 10_000).unref();
      });
    },
  } as unknown as PeerPort;
  const traffic = new PeerTraffic(port);
  const failures: unknown[] = [];
  traffic.startIncoming(1, 1);
  const bytes = [Uint8Array.from({ length: 10 }, (_, at) => at), new Uint8Array(6).fill(9)];
  const job = { kind: "receive", transfer: 1, piece: 0, block: 0 as never } as const;
  const received = traffic.receive(job, bytes);
  traffic.readFrom(1, {
    ...{ peer: { host: "h", port: 1 }, offer: "x", pieces: 1, deadlineMs: 1000, isStored: true },
    parts: [
      { offer: "y", port: 2, bytes: 5 },
      { offer: "z", port: 3, bytes: 4 },
    ],
    onFailure: (error) => failures.push(error),
  });
  expect(await received).toBe(false);
  expect(failures).toHaveLength(1);
  const into = reads
    .slice(0, 3)
    .map(({ pieces }) =>
      pieces.flatMap((piece) => ("into" in piece ? piece.into.map((part) => [...part]) : [])),
    );
  expect(into).toEqual([
    [[0, 1, 2, 3, 4, 5, 6]],
    [
      [7, 8, 9],
      [9, 9],
    ],
    [[9, 9, 9, 9]],
  ]);
  const offers = [
    ["x", 1],
    ["y", 2],
    ["z", 3],
  ];
  // Then all are left: nothing is read of them.
  expect(reads.map(({ offer, peer }) => [offer, peer.port])).toEqual([...offers, ...offers]);
  expect(reads.slice(3).flatMap(({ pieces }) => pieces)).toEqual([]);
});
