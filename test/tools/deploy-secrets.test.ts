/** Who a deployed process runs as, and whether it can read its secrets and keep what it stores. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { parse } from "yaml";

test("units keep what they store under one user, whatever their port is", () => {
  const units = readdirSync("deploy/systemd");
  expect(units).toHaveLength(3);
  for (const file of units) {
    const unit = readFileSync(join("deploy/systemd", file), "utf8");
    expect(unit).toMatch(/^DynamicUser=yes\nUser=perigee(-route)?$/m);
    const seconds = Number(/^TimeoutStopSec=(\d+)$/m.exec(unit)?.[1]);
    const drainMs = Number(/--shutdown-timeout-ms (\d+)/.exec(unit)?.[1]);
    expect(seconds * 1000).toBeGreaterThan(drainMs);
  }
});

/** A pod of a Deployment. */
interface Pod {
  readonly enableServiceLinks: boolean;
  readonly securityContext: Readonly<Record<string, unknown>>;
  readonly volumes: readonly { readonly secret: { readonly defaultMode: number } }[];
}

test.each(["worker", "router"])(
  "pods of the %s can read their secrets, and get no settings from names of Services",
  (name) => {
    const [deployment] = readFileSync(`deploy/kubernetes/${name}.yaml`, "utf8").split(/^---$/m);
    // As Kubernetes reads it: in YAML 1.1 0440 is octal.
    const { spec } = parse(deployment ?? "", { version: "1.1" }) as {
      spec: { template: { spec: Pod } };
    };
    const pod = spec.template.spec;
    expect(pod.enableServiceLinks).toBe(false);
    const { runAsUser, fsGroup } = pod.securityContext;
    expect([runAsUser, fsGroup]).toEqual([1000, 1000]);
    expect(pod.volumes[0]?.secret.defaultMode).toBe(0o440);
  },
);
