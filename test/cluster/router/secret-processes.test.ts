/** Keys, secrets and certificates on the command lines of real processes. */
import { execFileSync, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { request } from "node:https";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { FleetProcess } from "../../support/fleet-process.ts";
import { TlsFront } from "../../support/tls-front.ts";

const NO_OPENSSL = spawnSync("openssl", ["version"]).status !== 0;

const folder = mkdtempSync(join(tmpdir(), "perigee-secrets-"));
const file = (name: string, text: string): string => {
  const path = join(folder, name);
  writeFileSync(path, text, { mode: 0o600 });
  return path;
};
const started: (FleetProcess | TlsFront)[] = [];
const start = async (...words: string[]): Promise<FleetProcess> => {
  const running = await FleetProcess.start(words);
  started.push(running);
  return running;
};
const body = JSON.stringify({ prompt: "hello", max_tokens: 3, ignore_eos: true });
const post = (url: string, key: string | null): Promise<Response> =>
  fetch(`${url}/v1/completions`, {
    ...{ method: "POST", body },
    headers: {
      "content-type": "application/json",
      ...(key !== null && { authorization: `Bearer ${key}` }),
    },
  });

afterAll(async () => {
  for (const running of started) {
    if (running instanceof TlsFront) running.close();
    else await running.end("SIGKILL");
  }
  rmSync(folder, { recursive: true });
});

describe("keys and secrets of processes", () => {
  let worker: FleetProcess;
  beforeAll(async () => {
    const secret = file("secret", "fleet-secret-1\nfleet-secret-0\n");
    worker = await start(
      ...["worker", "--mock", "--speedup", "50", "--port", "0", "--cluster-secret-file", secret],
    );
  });

  test("[CL89] the router wants --api-key, the worker the fleet's secret, and neither takes the other", async () => {
    const secret = join(folder, "secret");
    const keys = file("keys", "# clients\nclient-key-1\n");
    const router = await start(
      ...["route", "--port", "0", "--worker", worker.url, "--cluster-secret-file", secret],
      ...["--api-key", "client-key-2", "--api-key-file", keys],
    );
    const told = async (url: string, key: string | null) => (await post(url, key)).status;
    expect(await told(router.url, null)).toBe(401);
    expect(await told(router.url, "fleet-secret-1")).toBe(401);
    expect(await told(router.url, "client-key-1")).toBe(200);
    expect(await told(router.url, "client-key-2")).toBe(200);
    expect(await told(worker.url, null)).toBe(401);
    expect(await told(worker.url, "client-key-1")).toBe(401);
    // A secret is changed without a pause: the worker takes both.
    expect(await told(worker.url, "fleet-secret-0")).toBe(200);
    for (const path of ["/metrics", "/server_info"]) {
      const answer = await fetch(router.url + path, {
        headers: { authorization: "Bearer client-key-1" },
      });
      expect(await answer.text()).not.toMatch(/fleet-secret|client-key/);
    }
    expect([...router.log, ...worker.log].join("\n")).not.toMatch(/fleet-secret|client-key/);
  });

  test("[CL89] a router with another secret is refused, says so, and blames no client", async () => {
    const wrong = file("wrong-secret", "some-other-secret\n");
    const router = await start(
      ...["route", "--port", "0", "--worker", worker.url, "--cluster-secret-file", wrong],
    );
    const answer = await post(router.url, null);
    expect([502, 503]).toContain(answer.status);
    expect(await answer.text()).not.toContain("some-other-secret");
    await expect.poll(() => router.log.join("\n")).toMatch(/refuse|401|secret/);
    expect(router.log.join("\n")).not.toContain("some-other-secret");
  });
});

describe.skipIf(NO_OPENSSL)("TLS of processes (needs openssl)", () => {
  const paths = { ca: "", cert: "", key: "" };

  beforeAll(() => {
    const openssl = (...words: string[]) =>
      execFileSync("openssl", words, { cwd: folder, stdio: "ignore" });
    const rsa = ["-newkey", "rsa:2048", "-nodes", "-days", "2"];
    openssl(
      ...["req", "-x509", ...rsa, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=authority"],
    );
    openssl(
      ...["req", "-newkey", "rsa:2048", "-nodes", "-keyout", "key.pem", "-out", "request.pem"],
      ...["-subj", "/CN=localhost"],
    );
    file("names", "subjectAltName=DNS:localhost,IP:127.0.0.1\n");
    openssl(
      ...["x509", "-req", "-in", "request.pem", "-CA", "ca.pem", "-CAkey", "ca.key"],
      ...["-CAcreateserial", "-out", "cert.pem", "-days", "2", "-extfile", "names"],
    );
    for (const name of ["ca", "cert", "key"] as const) paths[name] = join(folder, `${name}.pem`);
  });

  const overTls = (url: string, ca: string | undefined): Promise<number | string> =>
    new Promise((resolve) => {
      const options = { method: "POST", headers: { "content-type": "application/json" } };
      const sent = request(
        `${url}/v1/completions`,
        { ...options, ...(ca !== undefined && { ca }) },
        (answer) => {
          answer.resume();
          resolve(answer.statusCode ?? 0);
        },
      );
      sent.on("error", (error) => resolve("code" in error ? String(error.code) : "error"));
      sent.end(body);
    });

  test("[CL132] --tls-cert, --tls-key, --worker-ca: clients that know the authority come by https, others not", async () => {
    const worker = await start("worker", "--mock", "--speedup", "50", "--port", "0");
    const front = await TlsFront.start(Number(new URL(worker.url).port), {
      ...{ cert: readFileSync(paths.cert, "utf8"), key: readFileSync(paths.key, "utf8") },
    });
    started.push(front);
    const tls = ["--tls-cert", paths.cert, "--tls-key", paths.key];
    const router = await start(
      ...["route", "--port", "0", "--worker", front.url, "--worker-ca", paths.ca, ...tls],
    );
    expect(router.url).toMatch(/^https:/);
    const ca = readFileSync(paths.ca, "utf8");
    expect(await overTls(router.url, ca)).toBe(200);
    expect(await overTls(router.url, undefined)).toMatch(/UNABLE_TO|SELF_SIGNED|CERT/);
    // Plain HTTP at the port of TLS harms nothing.
    await expect(fetch(router.url.replace("https:", "http:"))).rejects.toThrow();
    expect(await overTls(router.url, ca)).toBe(200);

    // A router that does not know the worker's authority sends it nothing.
    const stranger = await start("route", "--port", "0", "--worker", front.url);
    expect((await post(stranger.url, null)).status).toBe(503);
    await expect.poll(() => stranger.log.join("\n")).toMatch(/certificate|UNABLE_TO/i);
  });

  test("[CL132] half of a certificate, and files that are none, are refused at the start", async () => {
    const none = file("none.pem", "hello\n");
    const words = ["route", "--port", "0", "--worker", "http://127.0.0.1:9"];
    await expect(start(...words, "--tls-cert", paths.cert)).rejects.toThrow("--tls-key");
    await expect(start(...words, "--tls-cert", none, "--tls-key", none)).rejects.toThrow(
      /route ended with [1-9]/,
    );
    await expect(start(...words, "--tls-cert", "absent", "--tls-key", none)).rejects.toThrow(
      "absent",
    );
  });
});
