/**
 * A project that has the package installed, as a user's: it resolves `perigee` through the exports
 * of package.json, and compiles against the declarations of the build.
 */
import { execFile } from "node:child_process";
import { copyFileSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";

const run = promisify(execFile);
const root = resolve(".");
const compiler = join(root, "node_modules/typescript/bin/tsc");

/** Declarations of the package ollama name a type that only browsers' have. */
const BROWSER_TYPES = 'type HeadersInit = NonNullable<RequestInit["headers"]>;\n';

export interface Printed {
  readonly stdout: string;
  readonly stderr: string;
}

export interface UserProject {
  /** Messages of the type checker; "" where there are none. */
  readonly problems: string;
  /** Runs a compiled source, with more variables; rejects where its exit code is not 0. */
  run(name: string, environment?: Readonly<Record<string, string>>): Promise<Printed>;
  /** Runs some in one process, one after another: what each of them printed, by name. */
  runTogether(names: readonly string[]): Promise<ReadonlyMap<string, Printed>>;
  remove(): void;
}

/**
 * Compiles sources, by name without ending. The options are those of examples/tsconfig.json, and
 * `flags` of the compiler.
 */
export async function userProject(
  sources: ReadonlyMap<string, string>,
  flags: readonly string[] = [],
): Promise<UserProject> {
  const folder = mkdtempSync(join(tmpdir(), "perigee-user-"));
  const installed = join(folder, "node_modules");
  mkdirSync(installed);
  symlinkSync(root, join(installed, "perigee"));
  const names = ["openai", "ollama", "@anthropic-ai", "@types", "@perigee", "@ai-sdk", "ai", "zod"];
  for (const name of names) {
    symlinkSync(join(root, "node_modules", name), join(installed, name));
  }
  writeFileSync(join(folder, "package.json"), '{ "type": "module" }');
  copyFileSync("examples/tsconfig.json", join(folder, "tsconfig.json"));
  writeFileSync(join(folder, "browser-types.d.ts"), BROWSER_TYPES);
  for (const [name, text] of sources) writeFileSync(join(folder, `${name}.ts`), text);
  const problems = await run(process.execPath, [compiler, "--noEmit", "false", ...flags], {
    cwd: folder,
  })
    .then(() => "")
    .catch((error: { stdout?: string }) => error.stdout || String(error));
  return {
    problems,
    run: (name, environment = {}) => {
      const env = { ...process.env, ...environment };
      return run(process.execPath, [`${name}.js`], { cwd: folder, env });
    },
    runTogether: (names) => runTogether(folder, names),
    remove: () => rmSync(folder, { recursive: true }),
  };
}

const END = "-- the end of a program --\n";

async function runTogether(folder: string, names: readonly string[]) {
  const end = `process.stdout.write(${JSON.stringify(END)});
    process.stderr.write(${JSON.stringify(END)});`;
  const script = names.map((name) => `await import("./${name}.js"); ${end}`).join("\n");
  const words = ["--input-type=module", "--eval", script];
  const { stdout, stderr } = await run(process.execPath, words, { cwd: folder });
  const [texts, errors] = [stdout.split(END), stderr.split(END)];
  return new Map(
    names.map((name, place) => {
      return [name, { stdout: texts[place] ?? "", stderr: errors[place] ?? "" }];
    }),
  );
}
