import { expect, test } from "vitest";
import { closeToyServers, serveToy } from "../support/toy-server.ts";

closeToyServers();

const labels = 'model_name="toy",engine="0"';

/** The value of one series, or NaN. */
function seriesValue(text: string, series: string): number {
  const line = text.split("\n").find((candidate) => candidate.startsWith(`${series} `));
  return Number(line?.slice(series.length + 1));
}

test("counters and histograms follow requests, under both prefixes", async () => {
  const { get, post } = await serveToy();
  await post("/v1/completions", { prompt: "a prompt of forty characters, give or so", n: 1 });
  await post("/v1/completions", { prompt: "a prompt of forty characters, give or so", n: 1 });
  const text = await (await get("/metrics")).text();
  for (const prefix of ["vllm", "perigee"]) {
    const value = (name: string, more = "") =>
      seriesValue(text, `${prefix}:${name}{${labels}${more}}`);
    expect(value("prompt_tokens_total")).toBe(80);
    expect(value("generation_tokens_total")).toBe(32);
    expect(value("prompt_tokens_cached_total")).toBe(32);
    expect(value("prefix_cache_queries_total")).toBe(80);
    expect(value("prefix_cache_hits_total")).toBe(32);
    expect(value("num_preemptions_total")).toBe(0);
    expect(value("request_success_total", ',finished_reason="stop"')).toBe(2);
    expect(value("num_requests_running")).toBe(0);
    expect(value("num_requests_waiting")).toBe(0);
    expect(value("kv_cache_usage_perc")).toBe(0);
    expect(value("time_to_first_token_seconds_count")).toBe(2);
    expect(value("inter_token_latency_seconds_count")).toBe(32);
    expect(value("e2e_request_latency_seconds_count")).toBe(2);
    expect(value("iteration_tokens_total_count")).toBe(32);
    expect(value("request_params_max_tokens_sum")).toBe(32);
    expect(value("prompt_tokens_by_source_total", ',source="local_cache_hit"')).toBe(32);
    expect(value("prompt_tokens_by_source_total", ',source="local_compute"')).toBe(48);
    expect(value("prompt_tokens_computed_total")).toBe(48);
  }
});

test("requests that are turned away are counted by route and status", async () => {
  const { get, post } = await serveToy({ msPerToken: 20 }, { concurrentRequestsMax: 1 });
  const running = post("/v1/completions", { prompt: "a", max_tokens: 20 });
  await expect.poll(async () => (await post("/v1/completions", { prompt: "a" })).status).toBe(429);
  await running;
  await get("/no-such-path");
  await expect
    .poll(async () => {
      const text = await (await get("/metrics")).text();
      const count = (handler: string, method: string, status: number) => {
        const more = `handler="${handler}",method="${method}",status="${status}"`;
        return seriesValue(text, `vllm:http_requests_total{${labels},${more}}`);
      };
      return [
        count("/v1/completions", "POST", 429) > 0,
        count("/v1/completions", "POST", 200) > 0,
        count("none", "GET", 404),
      ];
    })
    .toEqual([true, true, 1]);
});

test("no value is NaN, however soon one scrape follows another", async () => {
  const { get } = await serveToy();
  for (let scrape = 0; scrape < 3; scrape++) {
    const text = await (await get("/metrics")).text();
    expect(text).toContain("nodejs_eventloop_lag_mean_seconds");
    expect(text).not.toMatch(/ nan$/im);
  }
});

test("older boards find their names", async () => {
  const { get } = await serveToy();
  const text = await (await get("/metrics")).text();
  expect(seriesValue(text, `vllm:gpu_cache_usage_perc{${labels}}`)).toBe(0);
  expect(text).toContain("# TYPE vllm:time_per_output_token_seconds histogram");
});

test("the text is well formed: every series follows its own TYPE line, none is doubled", async () => {
  const { get, post } = await serveToy();
  await post("/v1/completions", { prompt: "a" });
  const answer = await get("/metrics");
  expect(answer.headers.get("content-type")).toContain("text/plain");
  const seen = new Set<string>();
  const types = new Set<string>();
  let current = "";
  for (const line of (await answer.text()).split("\n")) {
    if (line.startsWith("# TYPE ")) {
      current = line.split(" ")[2] ?? "";
      expect(types.has(current)).toBe(false);
      types.add(current);
    } else if (line !== "" && !line.startsWith("#")) {
      const series = line.slice(0, line.lastIndexOf(" "));
      expect(series.startsWith(current)).toBe(true);
      expect(seen.has(series)).toBe(false);
      seen.add(series);
    }
  }
  expect([...types]).toContain("process_cpu_seconds_total");
});
