import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { releaseFiles } from "../../tools/install/release-files.mjs";
import { aiSdkManifest, publishedManifest } from "../../tools/release/manifests.mjs";
import { checkSums, inOrder, publishAll, writeSums } from "../../tools/release/publish.mjs";

const TARBALLS = [
  "perigee-0.1.0.tgz",
  "perigee-ai-sdk-0.1.0.tgz",
  "perigee-native-linux-arm64-0.1.0.tgz",
  "perigee-native-linux-x64-0.1.0.tgz",
];

/** A folder with a file for each name, and their sums. */
function release(names: readonly string[] = TARBALLS): string {
  const folder = mkdtempSync(join(tmpdir(), "perigee-release-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  for (const name of names) writeFileSync(join(folder, name), `of ${name}`);
  writeSums(folder, names);
  return folder;
}

test("packages that others depend on are published first", () => {
  expect(inOrder(TARBALLS)).toEqual([
    "perigee-native-linux-arm64-0.1.0.tgz",
    "perigee-native-linux-x64-0.1.0.tgz",
    "perigee-0.1.0.tgz",
    "perigee-ai-sdk-0.1.0.tgz",
  ]);
});

describe("nothing is published of a release that was changed since", () => {
  const publish = (folder: string) => {
    const said: string[] = [];
    const say = (text: string) => said.push(text);
    expect(() => publishAll(folder, { dryRun: true, registry: "", say })).toThrow(/SHA256SUMS/);
    expect(said).toEqual([]);
  };

  test("a file has other contents", () => {
    const folder = release();
    checkSums(folder);
    writeFileSync(join(folder, "perigee-0.1.0.tgz"), "other contents");
    publish(folder);
  });

  test("a tarball was added", () => {
    const folder = release();
    writeFileSync(join(folder, "perigee-other-0.1.0.tgz"), "");
    publish(folder);
  });
});

test("a release's tarballs are found by the names of their packages", () => {
  const folder = release([...TARBALLS, "perigee.cdx.json"]);
  const found = releaseFiles(folder);
  expect([...found.keys()].sort()).toEqual([
    "@perigee/ai-sdk",
    "@perigee/native-linux-arm64",
    "@perigee/native-linux-x64",
    "perigee",
  ]);
  expect(found.get("perigee")).toBe(join(folder, "perigee-0.1.0.tgz"));
  expect(() => releaseFiles(release(["perigee-ai-sdk-0.1.0.tgz"]))).toThrow("make a release first");
});

test("the published package asks for native packages of its version, and for nothing of a checkout", () => {
  const checkout = {
    ...{ name: "perigee", version: "1.2.3", workspaces: ["packages/ai-sdk"] },
    scripts: { postinstall: "node tools/build.mjs", prepare: "node tools/prepare.mjs" },
    devDependencies: { vitest: "1.0.0" },
    optionalDependencies: { zeromq: "6.0.0" },
  };
  expect(publishedManifest(checkout, ["linux-x64"])).toEqual({
    ...{ name: "perigee", version: "1.2.3", preferUnplugged: true },
    scripts: { postinstall: "node tools/build.mjs" },
    optionalDependencies: { zeromq: "6.0.0", "@perigee/native-linux-x64": "1.2.3" },
  });
});

test("@perigee/ai-sdk is published with perigee's version, and dependencies of the registry", () => {
  const own = { version: "1.2.3", dependencies: { "@ai-sdk/provider": "4.0.38" } };
  expect(aiSdkManifest(own, { version: "1.2.3" })).toBe(own);
  expect(() => aiSdkManifest(own, { version: "1.2.4" })).toThrow(
    "must have perigee's version 1.2.4, current value is 1.2.3; set it",
  );
  const linked = { ...own, dependencies: { other: "file:../other" } };
  expect(() => aiSdkManifest(linked, { version: "1.2.3" })).toThrow("must be of the registry");
});
