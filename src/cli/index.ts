/**
 * cli: the `perigee` command.
 *
 * Flags are made from the schemas of the settings they set. A command's code is imported when it
 * is called. Errors are one line with the remedy; exit codes: 0 done, 1 failed, 2 wrong use.
 *
 *   main.ts          arguments in, exit code out: what package.json calls
 *   commands.ts      all commands by name; commands/ has one file each
 *   bench/           what `perigee bench` measures
 *   engine-flags.ts  flags of everything that loads a model
 *   flags.ts         flags from a schema
 *   sampling-flags.ts   flags of everything that draws tokens
 *   progress.ts      a bar on a terminal, nothing in a pipe
 *   package-root.ts  the package's own files
 *
 * Invariant: nothing imports cli; it imports front doors only.
 *
 * @module
 */
export { COMMANDS, type CommandEntry } from "./commands.ts";
