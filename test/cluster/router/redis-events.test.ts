/** Workers as processes, their events in Redis, and what two routers make of them. */
import { spawn } from "node:child_process";
import { afterEach, describe, expect, test } from "vitest";
import { workerScope } from "#cluster";
import type { SnapshotBlock } from "#kvcache";
import { parseRouterConfig } from "../../../src/cluster/router/config.ts";
import { createParts, type RouterParts } from "../../../src/cluster/router/parts.ts";
import { parseKvSnapshot } from "../../../src/kvcache/events/kv-event-json-reader.ts";
import { built } from "../../cli/perigee.ts";
import { NO_REDIS, TestRedis } from "../../support/redis-server.ts";
import { until } from "../../support/until.ts";

const skipped = built ? NO_REDIS : "needs npm run build";

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

function startWorker(redis: TestRedis, id: string): void {
  const model = "test/fixtures/models/llama";
  const flags = ["--device", "reference", "--port", "0", "--worker-id", id];
  const words = ["dist/cli/main.js", "worker", model, ...flags, "--redis", redis.url];
  const child = spawn(process.execPath, words, { stdio: "ignore" });
  closing.push(() => child.kill("SIGKILL"));
}

function openRouter(redis: TestRedis): RouterParts {
  const parts = createParts(parseRouterConfig({ redis: redis.url, logLevel: "silent" }), {});
  closing.push(() => parts.close());
  return parts;
}

async function complete(url: string, prompt: readonly number[]): Promise<void> {
  const body = JSON.stringify({ prompt, max_tokens: 8, ignore_eos: true });
  const headers = { "content-type": "application/json" };
  const answer = await fetch(`${url}/v1/completions`, { method: "POST", headers, body });
  expect(answer.status).toBe(200);
  await answer.arrayBuffer();
}

/** All that a worker has: the snapshot that its own stream begins with. */
async function snapshotOf(url: string): Promise<SnapshotBlock[]> {
  const stop = new AbortController();
  const { body } = await fetch(`${url}/kv_cache_events/stream`, { signal: stop.signal });
  const blocks: SnapshotBlock[] = [];
  let text = "";
  const decoder = new TextDecoder();
  for await (const piece of body ?? []) {
    text += decoder.decode(piece, { stream: true });
    const messages = text.split("\n\n");
    text = messages.pop() ?? "";
    for (const message of messages) {
      const data = /^data: (.*)$/m.exec(message)?.[1];
      if (data === undefined || !message.includes("event: snapshot")) continue;
      const part = parseKvSnapshot(data);
      blocks.push(...part.blocks);
      if (part.last) return blocks;
    }
  }
  throw new Error("The stream ended before its snapshot did");
}

/** What the router's index has of a worker: its number of blocks, and those of each chain. */
function indexed({ context }: RouterParts, id: string, blocks: readonly SnapshotBlock[]): string {
  const info = context.membership.workers.get(id)?.info;
  // As a request of token ids asks: from then on events are read.
  const place = info && context.caches.placeOf(info, { tokens: new Uint32Array() });
  if (!info || !place) return `${id} is unknown`;
  const { model, blockTokens } = workerScope(info);
  const full = new Map(
    blocks
      .filter(({ tokenIds }) => tokenIds.length === blockTokens)
      .map((block) => [block.hash, block]),
  );
  const tokensOf = (block: SnapshotBlock): readonly number[] => {
    const parent = block.parentHash === null ? undefined : full.get(block.parentHash);
    return [...(parent === undefined ? [] : tokensOf(parent)), ...block.tokenIds];
  };
  const scope = { model, blockTokens, salt: null, lora: null, group: 0 };
  const short = [...full.values()].filter((block) => {
    const tokens = tokensOf(block);
    const prompt = place.lookup.blocksOf(scope, Uint32Array.from(tokens));
    const match = place.lookup.find(prompt).find(({ worker }) => worker === place.number);
    return match?.levels[2] !== tokens.length / blockTokens;
  });
  return `${id} has ${full.size - short.length} of ${full.size}`;
}

const full = (blocks: readonly SnapshotBlock[], blockTokens: number) =>
  blocks.filter(({ tokenIds }) => tokenIds.length === blockTokens).length;

describe.skipIf(skipped !== null)(`two routers${skipped === null ? "" : ` (${skipped})`}`, () => {
  test("[CL115] know what two workers have, by Redis, without it, and when it came back empty", {
    timeout: 120_000,
  }, async () => {
    const redis = await TestRedis.start();
    closing.push(() => redis.close());
    const ids = ["one", "two"];
    for (const id of ids) startWorker(redis, id);
    const routers = [openRouter(redis), openRouter(redis)];
    const infoOf = (id: string) => routers[0]?.context.membership.workers.get(id)?.info;
    await until("both join", () =>
      routers.every(({ context }) => context.membership.workers.size === 2),
    );
    for (const id of ids) expect(infoOf(id)?.kv?.stream).toMatch(/^perigee:kv:/);
    const client = redis.client();
    closing.push(() => client.disconnect());

    let seed = 1;
    const work = async () => {
      for (const id of ids) {
        for (let request = 0; request < 4; request++) {
          const shared = Array.from({ length: 20 + 40 * (request % 2) }, (_, at) => 10 + at);
          const own = Array.from({ length: 40 }, (_, at) => 100 + ((seed * (at + 7)) % 200));
          seed++;
          await complete(infoOf(id)?.url ?? "", [...shared, ...own]);
        }
      }
    };
    /** Both routers have what both workers say that they have, and nothing else. */
    const agree = async () => {
      const snapshots = await Promise.all(ids.map((id) => snapshotOf(infoOf(id)?.url ?? "")));
      const blockTokens = infoOf("one")?.kv?.blockTokens ?? 0;
      const counts = snapshots.map((blocks) => full(blocks, blockTokens));
      const wanted = ids.map((id, at) => `${id} has ${counts[at]} of ${counts[at]}`);
      const total = counts.reduce((sum, count) => sum + count);
      for (const router of routers) {
        const { caches } = router.context;
        const known = () => ids.map((id, at) => indexed(router, id, snapshots[at] ?? []));
        await expect
          .poll(() => [caches.stats().exact.memberships, ...known()], { timeout: 15_000 })
          .toEqual([total, ...wanted]);
      }
      return total;
    };

    await work();
    const first = await agree();
    expect(first).toBeGreaterThan(8);
    const streams = ids.map((id) => infoOf(id)?.kv?.stream ?? "");
    for (const key of streams) expect(await client.xlen(key)).toBeGreaterThan(0);

    await redis.kill();
    await work();
    expect(await agree()).toBeGreaterThan(first);

    await redis.start();
    for (const key of streams) {
      await expect.poll(() => client.xlen(key), { timeout: 15_000 }).toBeGreaterThan(0);
    }
    await work();
    await agree();
    expect(routers.every(({ context }) => context.membership.workers.size === 2)).toBe(true);
  });
});
