/** `perigee config`: the schema of files of settings, and a check of one. */
import type { Command } from "commander";
import { plainText } from "../terminal-text.ts";

const MANUAL = `
Settings may stand in a YAML file instead of flags. Its keys are flags without dashes; keys of one
command stand below its name, and win over the same key above. Sizes have units or none:

  # yaml-language-server: $schema=node_modules/perigee/docs/perigee.schema.json
  model: models/pocket
  kv-pool-bytes: 1GiB
  serve:
    port: 8000
    api-key-file: keys.txt

  perigee serve --config perigee.yaml                  read it
  PERIGEE_PORT=9000 perigee serve --config perigee.yaml    a variable wins over the file
  perigee serve --config perigee.yaml --print-config   what would be used, and where it is from
  perigee config check perigee.yaml                    all of its lines, for all commands
  perigee config schema > perigee.schema.json          for editors

A flag wins over a variable, a variable over the file, the file over the default. Paths in a file
are those of the working folder. No file is read unless --config or PERIGEE_CONFIG names it.
`;

/** `perigee config`. */
export function defineConfig(config: Command, all: () => Promise<Command>): void {
  config.addHelpText("after", MANUAL);
  config
    .command("schema")
    .description("Print the JSON Schema of files of settings, with which editors complete them.")
    .action(async () => {
      const { configurationSchema } = await import("../configuration/json-schema.ts");
      const schema = configurationSchema(await all());
      process.stdout.write(`${JSON.stringify(schema, null, 2)}\n`);
    });
  config
    .command("check")
    .description("Check a file of settings for every command that it has settings of.")
    .argument("<file>", "YAML, as for --config.")
    .action(async (file: string) => {
      const { checkFile } = await import("../configuration/check-file.ts");
      const lines = await checkFile(file, await all());
      process.stdout.write(plainText(`${lines.join("\n")}\n`));
    });
}
