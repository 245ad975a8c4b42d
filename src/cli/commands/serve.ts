import type { Command } from "commander";
import type { EngineError } from "#base";
import type { LLM } from "#engine";
import { ServerOptions, startServer } from "#server";
import { cacheSizes, sizesText } from "../cache-sizes.ts";
import { addEngineFlags, loadModel } from "../engine-flags.ts";
import { SchemaFlags } from "../flags.ts";

const serverFlags = new SchemaFlags(ServerOptions, {
  rename: {
    "defaultSampling.temperature": "default-temperature",
    "defaultSampling.topP": "default-top-p",
    "defaultSampling.topK": "default-top-k",
    "defaultSampling.minP": "default-min-p",
    "defaultSampling.repetitionPenalty": "default-repetition-penalty",
    "defaultSampling.maxTokens": "default-max-tokens",
  },
});

type ServeFlags = Readonly<Record<string, unknown>>;

/** `perigee serve`. */
export function defineServe(command: Command): void {
  command.action((model: string | undefined, flags: ServeFlags) => serve(model, flags));
  serverFlags.addTo(command, "Server:");
  addEngineFlags(command);
}

async function serve(model: string | undefined, flags: ServeFlags): Promise<void> {
  serverFlags.check(flags);
  const options: ServerOptions = serverFlags.collect(flags);
  const servedName = options.servedModelName?.[0];
  await using llm = await loadModel({
    ...{ model, values: flags },
    ...(servedName === undefined ? {} : { servedName }),
  });
  const server = await startServer(llm, {
    ...options,
    defaultSampling: { ...llm.defaultSampling, ...options.defaultSampling },
  });
  process.stderr.write(`perigee: running on ${llm.info.device}\n`);
  const sizes = cacheSizes(llm.info, llm.stats().cache);
  if (sizes.length > 0) process.stderr.write(`perigee: KV cache: ${sizesText(sizes)}\n`);
  process.stderr.write(`perigee: serving ${llm.info.name} at ${server.url}\n`);
  await Promise.race([untilStopped(() => server.close()), untilDead(llm, () => server.close())]);
}

/** Without its engine a server is of no use: whoever watches the process shall start a new one. */
async function untilDead(llm: LLM, close: () => Promise<void>): Promise<never> {
  const error = await new Promise<EngineError>((resolve) => llm.listen({ onDead: resolve }));
  await close();
  throw error;
}

/** The first signal finishes what runs; the second leaves at once. */
async function untilStopped(close: () => Promise<void>): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    let stopping = false;
    const stop = (signal: NodeJS.Signals) => {
      if (stopping) process.exit(1);
      stopping = true;
      process.stderr.write(`perigee: ${signal}, finishing what runs\n`);
      close().then(resolve, reject);
    };
    process.on("SIGTERM", stop);
    process.on("SIGINT", stop);
  });
}
