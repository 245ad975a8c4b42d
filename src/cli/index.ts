/**
 * cli: the `perigee` command.
 *
 * Flags are generated from the schemas of the settings they set. A command's code is imported when
 * it is called. Errors are one line with the remedy; exit codes: 0 done, 1 failed, 2 wrong use, 130
 * ended by Ctrl-C, with finished results written. Standard output has results only.
 *
 *   main.ts          the entry point in package.json; run.ts: words in, exit code out
 *   program.ts       the commands as commander knows them
 *   commands.ts      all commands by name; commands/ has one file each
 *   configuration/   settings from files and the environment: read, checked, printed, their schema;
 *                    variables that are misspelt
 *   completion/      scripts for shells, and the manual page, from the same declarations
 *   rag/             documents that are searched and asked: `perigee rag`
 *   chat/            conversations in the terminal: commands, settings, files of them
 *   bench/           measurements of `perigee bench`
 *   plot/            pictures of runs: `--plot`
 *   flags.ts         flags from a schema; flag-option.ts: one flag
 *   serving.ts       what `serve` and `worker` have in common
 *   engine-flags.ts  flags of commands that load a model
 *   sampling-flags.ts   flags of commands that sample tokens
 *   prompt-source.ts prompts from flags, files and pipes; prompt-row.ts: one prompt
 *   trace-source.ts  the trace of replay and simulate: a file, or a pipe
 *   csv-file.ts      tables of requests: `--csv`
 *   batch.ts         many prompts at once
 *   result-output.ts destination and order of results
 *   standard-output.ts  slow and closed pipes, full disks
 *   interruption.ts  Ctrl-C
 *   exit-codes.ts    the codes above
 *   api-keys.ts      keys of a server, from flags, a file or the environment; pem-files.ts:
 *                    certificates and their keys
 *   cuda-environment.ts, hub-environment.ts   variables and folders of CUDA and of the hub
 *   retention.ts, cache-sizes.ts   retention and sizes of the cache as flags and text
 *   line-reader.ts   lines of untrusted files; camel-case.ts: names of their fields
 *   byte-size.ts     sizes with units
 *   terminal-text.ts untrusted text made safe for a terminal
 *   start-lines.ts, loading-bar.ts   what `serve` prints while it starts
 *   freed-memory.ts  returns freed memory to the system
 *   file-problem.ts  error messages for files that cannot be used
 *   present-model.ts downloads of models that are not here; download-bar.ts: their progress
 *   progress.ts      a bar on a terminal, nothing in a pipe
 *   package-root.ts  the package's own files
 *
 * Invariant: no module imports cli; cli imports only the index.ts of other modules.
 *
 * @module
 */
export { COMMANDS, type CommandEntry } from "./commands.ts";
