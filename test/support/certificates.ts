/** Certificates that tests make by openssl, for 127.0.0.1. */
import { execFileSync, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** Why there are none; null: there are. */
export const NO_OPENSSL: string | null =
  spawnSync("openssl", ["version"]).status === 0 ? null : "needs openssl";

export interface Certificate {
  readonly cert: string;
  readonly key: string;
}

const CURVE = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"];

/** An authority that signs certificates. */
export class Authority implements Disposable {
  /** Its own, by which those that it signed are known. */
  readonly ca: string;
  readonly #folder: string;

  constructor() {
    this.#folder = mkdtempSync(join(tmpdir(), "perigee-certificates-"));
    const made = ["-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=authority of tests"];
    this.#openssl("req", "-x509", ...CURVE, ...made);
    this.ca = this.#read("ca.pem");
  }

  /** `name`: whose it is, e.g. `IP:127.0.0.1`. */
  issue(name = "IP:127.0.0.1"): Certificate {
    writeFileSync(join(this.#folder, "names"), `subjectAltName=${name}\n`);
    const asked = ["-keyout", "key.pem", "-out", "request.pem", "-subj", "/CN=worker"];
    this.#openssl("req", ...CURVE.slice(0, -2), ...asked);
    this.#openssl(
      ...["x509", "-req", "-in", "request.pem", "-CA", "ca.pem", "-CAkey", "ca.key"],
      ...["-CAcreateserial", "-out", "cert.pem", "-days", "2", "-extfile", "names"],
    );
    return { cert: this.#read("cert.pem"), key: this.#read("key.pem") };
  }

  /** A file with a text, such as a command line names. */
  write(name: string, text: string): string {
    const file = join(this.#folder, name);
    writeFileSync(file, text, { mode: 0o600 });
    return file;
  }

  [Symbol.dispose](): void {
    rmSync(this.#folder, { recursive: true });
  }

  #openssl(...words: readonly string[]): void {
    execFileSync("openssl", words, { cwd: this.#folder, stdio: "ignore" });
  }

  #read(name: string): string {
    return readFileSync(join(this.#folder, name), "utf8");
  }
}
