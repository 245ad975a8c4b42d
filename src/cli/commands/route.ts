import { type Command, Option } from "commander";
import { RouterOptions, startRouter } from "#cluster";
import { API_KEY_FILE_HELP, readApiKeys } from "../api-keys.ts";
import { SchemaFlags } from "../flags.ts";
import { startLines } from "../start-lines.ts";
import { untilStopped } from "../until-stopped.ts";

const HEADING = "Router:";

const routerFlags = new SchemaFlags(RouterOptions, {
  help: {
    apiKey:
      "API key that clients must send as bearer token; may be repeated. Other users of the " +
      "machine see it in the list of processes, unlike a file or an environment variable. " +
      "(default: no key is needed)",
  },
});

interface RouteFlags extends Readonly<Record<string, unknown>> {
  readonly apiKeyFile?: string;
}

/** `perigee route`. */
export function defineRoute(command: Command): void {
  command.action((flags: RouteFlags) => route(flags));
  routerFlags.addTo(command, HEADING);
  command.addOption(new Option("--api-key-file <file>", API_KEY_FILE_HELP).helpGroup(HEADING));
}

async function route(flags: RouteFlags): Promise<void> {
  routerFlags.check(flags);
  const options: RouterOptions = routerFlags.collect(flags);
  const lines = startLines();
  const apiKey = await readApiKeys({
    ...{ flags: options.apiKey ?? [], file: flags.apiKeyFile },
    ...{ environment: process.env, warn: lines.warn },
  });
  const router = await startRouter({ ...options, apiKey });
  lines.say(`routing at ${router.url} (process ${process.pid})`, { url: router.url });
  await untilStopped(() => router.close(), lines.say);
}
