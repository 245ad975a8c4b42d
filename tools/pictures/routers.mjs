// Pictures of docs/routers-compared.md: routers before the same workers.
import { matching, median, results } from "./results.mjs";

const HEADS = {
  routers: "Mooncake's conversations, 285 chats, one run each",
  "routers-agents": "Agents, 374 requests over three seeds, medians",
  "routers-shared": "Shared system prompts, medians of three seeds",
};

/** Of each router the medians over its seeds, in the order of the file. */
function byRouter(rows, value) {
  const names = [...new Set(rows.map(({ router }) => router))];
  return names.map((router) => [router, median(matching(rows, { router }).map(value))]);
}

function charts(name, rows, subtitle) {
  const of = (value) => new Map(byRouter(rows, value));
  const [p50, p90] = [of(({ ttftMs }) => ttftMs.p50), of(({ ttftMs }) => ttftMs.p90)];
  const bars = (title, values, unit) => ({
    ...{ kind: "bars", title, subtitle, unit, series: values.map(([series]) => series) },
    rows: [...p50.keys()].map((router) => ({
      label: router,
      values: values.map(([, map]) => map.get(router)),
    })),
  });
  const processor = of(({ routerMs }) => routerMs);
  const hits = of(({ hitRate }) => 100 * hitRate);
  return [
    bars(
      `${HEADS[name]}: time to the first token`,
      [
        ["p50", p50],
        ["p90", p90],
      ],
      " ms",
    ),
    bars("Prompt tokens found in the workers' caches", [["hits", hits]], " %"),
    bars("Processor time of the router for a request", [["time", processor]], " ms"),
  ].map((chart, at) => (at === 0 ? chart : { ...chart, subtitle: "" }));
}

export function routerPictures() {
  const conversations = matching(results("routers").rows, { untilSeconds: 100 });
  const workers = "eight mock workers of h200-8b; what each router sets up by itself";
  return [
    ["routers-compared/conversation.svg", charts("routers", conversations, workers)],
    [
      "routers-compared/agents.svg",
      charts("routers-agents", results("routers-agents").rows, workers),
    ],
    [
      "routers-compared/shared.svg",
      charts("routers-shared", results("routers-shared").rows, workers),
    ],
  ];
}
