/**
 * cli: the `perigee` command.
 *
 * Flags are made from the schemas of the settings they set. A command's code is imported when it
 * is called. Errors are one line with the remedy; exit codes: 0 done, 1 failed, 2 wrong use, 130
 * ended by Ctrl-C, with what was done by then written. Standard output has results only.
 *
 *   main.ts          arguments in, exit code out: what package.json calls
 *   commands.ts      all commands by name; commands/ has one file each
 *   bench/           what `perigee bench` measures
 *   flags.ts         flags from a schema; flag-option.ts one of them
 *   engine-flags.ts  flags of everything that loads a model
 *   sampling-flags.ts   flags of everything that draws tokens
 *   prompt-source.ts prompts from flags, files and pipes; prompt-row.ts one of them
 *   batch.ts         many prompts at once
 *   result-output.ts where results go, and in which order
 *   standard-output.ts  slow and closed pipes, full disks
 *   interruption.ts  Ctrl-C
 *   file-problem.ts  files that cannot be used, in words
 *   progress.ts      a bar on a terminal, nothing in a pipe
 *   package-root.ts  the package's own files
 *
 * Invariant: nothing imports cli; it imports front doors only.
 *
 * @module
 */
export { COMMANDS, type CommandEntry } from "./commands.ts";
