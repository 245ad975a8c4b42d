/** What each reader finds where. tools/site.mjs fails where a page of docs is in no group. */

const page = (text, path) => ({ text, link: `/${path}` });

/** Above the pages: the first page of each reader. */
export const TOP = [
  page("App developers", "docs/typescript"),
  page("Operators", "docs/operating"),
  page("Fleets", "docs/fleet"),
  page("Researchers", "docs/research"),
  page("API", "docs/api/perigee"),
];

export const SIDEBAR = [
  {
    text: "Start",
    items: [
      page("What Perigee is", ""),
      page("All pages", "docs/index"),
      page("Installing", "docs/installing"),
    ],
  },
  {
    text: "App developers",
    items: [
      page("Perigee in TypeScript", "docs/typescript"),
      page("Tools and thinking", "docs/tools"),
      page("Vercel AI SDK", "docs/ai-sdk"),
      page("Embeddings and scores", "docs/embeddings"),
      page("Answers from documents", "docs/rag"),
      page("From node-llama-cpp", "docs/from-node-llama-cpp"),
    ],
  },
  {
    text: "APIs over HTTP",
    items: [
      page("OpenAI's Responses", "docs/responses"),
      page("Files and vector stores", "docs/vector-stores"),
      page("Anthropic's Messages", "docs/anthropic"),
      page("Ollama's API", "docs/ollama"),
    ],
  },
  {
    text: "Operators",
    items: [
      page("Operating", "docs/operating"),
      page("In production", "docs/production"),
      page("The live page", "docs/dashboard"),
      page("Settings: flags, variables, files", "docs/settings"),
      page("Models: which files are read", "docs/models"),
      page("The KV cache", "docs/kv-cache"),
      page("Speculation", "docs/speculation"),
      page("Security", "SECURITY"),
      page("From vLLM", "docs/from-vllm"),
      page("From Ollama", "docs/from-ollama"),
    ],
  },
  {
    text: "Fleets",
    items: [
      page("A fleet in two minutes", "docs/fleet"),
      page("The router", "docs/router"),
      page("Routers compared", "docs/routers-compared"),
      page("Behind others' tools", "docs/benchmarking"),
      page("Loads for fleets", "docs/traffic"),
    ],
  },
  {
    text: "Researchers",
    items: [
      page("Measuring and studying", "docs/research"),
      page("Replaying traces", "docs/replay"),
      page("Simulating fleets", "docs/simulate"),
      page("The papers' figures again", "docs/reproduction"),
    ],
  },
  {
    text: "Reference",
    items: [
      page("perigee", "docs/api/perigee"),
      page("perigee/server", "docs/api/server"),
      page("perigee/kvcache", "docs/api/kvcache"),
      page("perigee/scheduler", "docs/api/scheduler"),
      page("perigee/rag", "docs/api/rag"),
      page("Configuration", "docs/configuration"),
      page("Errors", "docs/errors"),
    ],
  },
  {
    text: "Contributors",
    collapsed: true,
    items: [
      page("Contributing", "CONTRIBUTING"),
      page("Architecture", "ARCHITECTURE"),
      page("Design: the fleet's index", "docs/design/fleet-index"),
      page("Design: migration", "docs/design/migration"),
      page("Design: pipeline", "docs/design/pipeline"),
      page("Design: transfer", "docs/design/transfer"),
    ],
  },
];
