import { existsSync } from "node:fs";
import { join } from "node:path";
import type { Command } from "commander";
import { describeDevices } from "#devices";
import { bundledModel, packageVersion } from "../package-root.ts";

/** `perigee doctor`: what this machine offers, what is missing and how to get it. */
export function defineDoctor(command: Command): void {
  command.option("--json", "Print JSON.").action((flags: { json?: boolean }) => {
    const found = examine();
    if (flags.json === true) process.stdout.write(`${JSON.stringify(found, null, 2)}\n`);
    else process.stdout.write(format(found));
  });
}

interface Findings {
  readonly perigee: string;
  readonly node: string;
  readonly platform: string;
  readonly devices: ReturnType<typeof describeDevices>;
  readonly bundledModel: boolean;
}

function examine(): Findings {
  return {
    perigee: packageVersion(),
    node: process.version,
    platform: `${process.platform}-${process.arch}`,
    devices: describeDevices(),
    bundledModel: existsSync(join(bundledModel, "config.json")),
  };
}

function format(found: Findings): string {
  const lines = [
    `perigee ${found.perigee} · node ${found.node} · ${found.platform}`,
    ...found.devices.flatMap(({ available, description, remedy }) => [
      `${available ? "ok     " : "missing"} ${description}`,
      ...(remedy === null ? [] : [`        ${remedy}`]),
    ]),
    `${found.bundledModel ? "ok     " : "missing"} bundled model (models/pocket)`,
  ];
  return `${lines.join("\n")}\n`;
}
