#!/usr/bin/env node
/** `perigee`: the arguments of this process are a call, and its exit code is the call's. */
import "./early-flags.ts";
import { run } from "./run.ts";
import { watchStandardOutput } from "./standard-output.ts";

watchStandardOutput();
process.exitCode = await run(process.argv.slice(2));
