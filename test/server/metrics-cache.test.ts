import { expect, test } from "vitest";
import type { CacheLevelReport, CacheReport } from "#engine";
import { closeToyServers, serveToy } from "../support/toy-server.ts";

closeToyServers();

const device: CacheLevelReport = {
  level: "device",
  free: 1,
  held: 2,
  cached: 3,
  total: 6,
  hitTokens: 40,
  offloaded: 7,
  copiedAhead: 2,
  onboarded: 0,
  forgotten: 7,
  dropped: 50,
  orphaned: 51,
  expired: 8,
};

/** A cache with all levels, every number another one. */
const report: CacheReport = {
  levels: [
    device,
    { ...device, level: "host", free: 10, hitTokens: 16, offloaded: 11, onboarded: 12 },
    { ...device, level: "disk", free: 20, hitTokens: 4, offloaded: 0, onboarded: 21 },
  ],
  copiedBlocks: 30,
  swappedOutBlocks: 31,
  swappedInBlocks: 32,
  diskFailures: 33,
  kvByteSeconds: 37,
  peers: { sent: 34, received: 35, missed: 36 },
  sent: { bytes: 37, mapped: 38, nixl: 39 },
  fetched: { pieces: 40, seconds: 1.25 },
  moves: {
    copy: { blocks: 1, bytes: 100, seconds: 0.5 },
    offload: { blocks: 2, bytes: 200, seconds: 1.5 },
    onboard: { blocks: 3, bytes: 300, seconds: 2.5 },
    diskWrite: { blocks: 4, bytes: 400, seconds: 3.5 },
    diskRead: { blocks: 5, bytes: 500, seconds: 4.5 },
  },
};

/** Reads series of one exposition by name and own labels. */
async function scrape(cacheReport?: CacheReport): Promise<(series: string) => number | null> {
  const { get } = await serveToy(cacheReport === undefined ? {} : { cacheReport });
  const lines = (await (await get("/metrics")).text()).split("\n");
  return (series) => {
    const [name, own = ""] = series.split(/[{}]/);
    const labels = ['model_name="toy"', 'engine="0"', ...(own === "" ? [] : [own])].join(",");
    const start = `${name}{${labels}} `;
    const line = lines.find((candidate) => candidate.startsWith(start));
    return line === undefined ? null : Number(line.slice(start.length));
  };
}

test("blocks of every level are shown by state", async () => {
  const value = await scrape(report);
  for (const prefix of ["perigee", "vllm"]) {
    const blocks = `${prefix}:kv_cache_blocks`;
    expect(value(`${blocks}{level="device",state="free"}`)).toBe(1);
    expect(value(`${blocks}{level="device",state="held"}`)).toBe(2);
    expect(value(`${blocks}{level="device",state="cached"}`)).toBe(3);
    expect(value(`${blocks}{level="host",state="free"}`)).toBe(10);
    expect(value(`${blocks}{level="disk",state="free"}`)).toBe(20);
  }
});

test("what happened in a level is counted by level and reason", async () => {
  const value = await scrape(report);
  expect(value('perigee:kv_cache_hit_tokens_total{level="host"}')).toBe(16);
  expect(value('perigee:kv_cache_offloaded_blocks_total{level="device"}')).toBe(7);
  expect(value('perigee:kv_cache_offloaded_blocks_total{level="host"}')).toBe(11);
  expect(value('perigee:kv_cache_onboarded_blocks_total{level="host"}')).toBe(12);
  expect(value('perigee:kv_cache_onboarded_blocks_total{level="disk"}')).toBe(21);
  const evicted = "perigee:kv_cache_evicted_blocks_total";
  expect(value(`${evicted}{level="device",reason="offloaded"}`)).toBe(5);
  expect(value(`${evicted}{level="device",reason="forgotten"}`)).toBe(7);
  expect(value(`${evicted}{level="device",reason="dropped"}`)).toBe(50);
  expect(value(`${evicted}{level="host",reason="orphaned"}`)).toBe(51);
  expect(value(`${evicted}{level="host",reason="offloaded"}`)).toBeNull();
  expect(value('perigee:kv_cache_offloaded_blocks_total{level="disk"}')).toBeNull();
  expect(value('perigee:kv_cache_onboarded_blocks_total{level="device"}')).toBeNull();
  expect(value('perigee:kv_cache_expired_blocks_total{level="disk"}')).toBe(8);
});

test("what was moved is counted in blocks, bytes and seconds by direction", async () => {
  const value = await scrape(report);
  const ways = ["device_to_device", "device_to_host", "host_to_device", "host_to_disk"];
  for (const [index, way] of [...ways, "disk_to_host"].entries()) {
    const labels = `{direction="${way}"}`;
    expect(value(`perigee:kv_cache_moved_blocks_total${labels}`)).toBe(index + 1);
    expect(value(`perigee:kv_cache_moved_bytes_total${labels}`)).toBe(100 * (index + 1));
    expect(value(`perigee:kv_cache_move_seconds_total${labels}`)).toBe(index + 0.5);
  }
  expect(value("perigee:kv_cache_copied_blocks_total")).toBe(30);
  expect(value('perigee:kv_cache_swapped_blocks_total{direction="out"}')).toBe(31);
  expect(value('perigee:kv_cache_swapped_blocks_total{direction="in"}')).toBe(32);
  expect(value("perigee:kv_cache_disk_failures_total")).toBe(33);
  for (const [at, direction] of ["sent", "received", "missed"].entries()) {
    expect(value(`perigee:kv_transfer_blocks_total{direction="${direction}"}`)).toBe(34 + at);
  }
  for (const [at, way] of ["bytes", "mapped", "nixl"].entries()) {
    expect(value(`perigee:kv_transfer_sent_pieces_total{way="${way}"}`)).toBe(37 + at);
  }
});

test("boards for vLLM's offloading find its names and labels", async () => {
  const value = await scrape(report);
  expect(value('vllm:kv_offload_total_bytes_total{transfer_type="GPU_to_CPU"}')).toBe(200);
  expect(value('vllm:kv_offload_total_bytes_total{transfer_type="CPU_to_GPU"}')).toBe(300);
  expect(value('vllm:kv_offload_total_time_total{transfer_type="CPU_to_GPU"}')).toBe(2.5);
  expect(value("vllm:external_prefix_cache_hits_total")).toBe(20);
});

test("preemptions are told apart by kind, and dropped events from told ones", async () => {
  const value = await scrape();
  expect(value('perigee:preemptions_total{kind="swap"}')).toBe(0);
  expect(value('perigee:preemptions_total{kind="recompute"}')).toBe(0);
  // A cache tells first that it was made.
  expect(value("perigee:kv_events_total")).toBe(1);
  expect(value("perigee:kv_events_dropped_total")).toBe(0);
});

test("a device without other levels shows no series of them", async () => {
  const value = await scrape({ ...report, levels: [device] });
  expect(value('perigee:kv_cache_hit_tokens_total{level="device"}')).toBe(40);
  expect(value('perigee:kv_cache_hit_tokens_total{level="host"}')).toBeNull();
  expect(value("vllm:external_prefix_cache_hits_total")).toBeNull();
  expect(value('vllm:kv_offload_total_bytes_total{transfer_type="GPU_to_CPU"}')).toBeNull();
});

test("a model without a cache shows nothing of one", async () => {
  const value = await scrape();
  expect(value('perigee:kv_cache_blocks{level="device",state="free"}')).toBeNull();
  expect(value("perigee:kv_cache_copied_blocks_total")).toBeNull();
});
