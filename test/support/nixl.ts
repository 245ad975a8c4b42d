/** libnixl_capi.so of the package nixl-cu12, where Python and the package can be had. */
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";

const made =
  process.platform === "linux" && process.arch === "x64"
    ? spawnSync("test/peers/python-venv.sh", ["nixl", "--no-deps", "nixl-cu12==1.5.1"], {
        encoding: "utf8",
      })
    : null;
const path =
  made?.status === 0
    ? join(
        made.stdout.trim(),
        "lib/python3.12/site-packages/.nixl_cu12.mesonpy.libs/libnixl_capi.so",
      )
    : null;

/** Null: it cannot be had, see `NO_NIXL`. */
export const NIXL: string | null = path !== null && existsSync(path) ? path : null;

/** Why there is none; null: there is one. */
export const NO_NIXL: string | null =
  NIXL !== null
    ? null
    : `skipped: ${made?.stderr.trim().split("\n").at(-1) ?? "not a Linux of x64"}`;
