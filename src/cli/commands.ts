import type { Command } from "commander";

/**
 * Adds a command's arguments, flags and action. `all` makes the program with the flags of every
 * command, for the few that need them.
 */
export type DefineCommand = (command: Command, all: () => Promise<Command>) => void;

/** One command: its help text, and the code that adds its arguments, flags and action. */
export interface CommandEntry {
  readonly name: string;
  readonly description: string;
  /** Imports the command's code and its dependencies. */
  readonly load: () => Promise<DefineCommand>;
}

/** All commands, in the order of `--help`. */
export const COMMANDS: readonly CommandEntry[] = [
  {
    name: "serve",
    description: "Serve a model over HTTP with an OpenAI-compatible API.",
    load: async () => (await import("./commands/serve.ts")).defineServe,
  },
  {
    name: "worker",
    description: "Serve a model as a worker of a fleet: serve, and tell routers of it.",
    load: async () => (await import("./commands/worker.ts")).defineWorker,
  },
  {
    name: "route",
    description: "Route requests to many workers behind one OpenAI-compatible address.",
    load: async () => (await import("./commands/route.ts")).defineRoute,
  },
  {
    name: "generate",
    description: "Continue prompts and print the completions.",
    load: async () => (await import("./commands/generate.ts")).defineGenerate,
  },
  {
    name: "chat",
    description: "Chat with a model in the terminal.",
    load: async () => (await import("./commands/chat.ts")).defineChat,
  },
  {
    name: "rag",
    description: "Answer questions from your own documents: ingest, search, ask, status, remove.",
    load: async () => (await import("./commands/rag.ts")).defineRag,
  },
  {
    name: "bench",
    description: "Measure latency, throughput or a running server.",
    load: async () => (await import("./commands/bench.ts")).defineBench,
  },
  {
    name: "replay",
    description:
      "Compute prefix-cache hit rates of a trace, per eviction policy and pool size, without " +
      "a model.",
    load: async () => (await import("./commands/replay.ts")).defineReplay,
  },
  {
    name: "simulate",
    description:
      "Simulate a fleet with prefill and decode pools on a trace, without a model: times, hits " +
      "and rejections.",
    load: async () => (await import("./commands/simulate.ts")).defineSimulate,
  },
  {
    name: "models",
    description: "List, inspect and download models.",
    load: async () => (await import("./commands/models.ts")).defineModels,
  },
  {
    name: "config",
    description: "Files of settings instead of flags: their schema, and a check.",
    load: async () => (await import("./commands/config.ts")).defineConfig,
  },
  {
    name: "completion",
    description: "Print a script that completes commands and flags in a shell, or the manual page.",
    load: async () => (await import("./commands/completion.ts")).defineCompletion,
  },
  {
    name: "doctor",
    description: "Report what this machine can run, what is missing and how to install it.",
    load: async () => (await import("./commands/doctor.ts")).defineDoctor,
  },
];
