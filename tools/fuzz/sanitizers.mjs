/** The native library with sanitizers, and what a process needs to load it. Linux and GCC. */
import { execFileSync } from "node:child_process";
import { join } from "node:path";

/** The instruction set that is built: nearly every processor has it. */
export const SANITIZED_ISA = process.arch === "x64" ? "avx2" : "neon";

/** Builds it where it is not up to date. */
export function buildSanitized(root) {
  const tool = join(root, "tools", "build-native.mjs");
  execFileSync(process.execPath, [tool, "--sanitize", "--isa", SANITIZED_ISA], {
    stdio: "inherit",
  });
  const name = `libperigee-${SANITIZED_ISA}.so`;
  return { name, path: join(root, "native", "build", "sanitized", name) };
}

/**
 * Node itself is not built with them, so their libraries go first into its process. Leaks are
 * not looked for: V8 ends without giving its memory back. An allocation beyond a GiB fails.
 */
export function sanitizedEnvironment() {
  const compiler = process.env.CXX ?? "c++";
  const library = (name) =>
    execFileSync(compiler, [`-print-file-name=${name}`], { encoding: "utf8" }).trim();
  return {
    LD_PRELOAD: `${library("libasan.so")} ${library("libubsan.so")}`,
    ASAN_OPTIONS:
      "detect_leaks=0:quarantine_size_mb=16:malloc_context_size=6:max_allocation_size_mb=1024:" +
      "allocator_may_return_null=1:allow_user_segv_handler=1:handle_abort=1",
    UBSAN_OPTIONS: "print_stacktrace=1:halt_on_error=1",
  };
}
