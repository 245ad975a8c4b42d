// Software bills of materials (CycloneDX) of packages of a release, by npm.
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const OUTPUT_MAX = 2 ** 26;
const SBOM = ["sbom", "--sbom-format", "cyclonedx", "--omit", "dev"];

function npm(words, cwd) {
  const stdio = ["ignore", "pipe", "inherit"];
  return execFileSync("npm", words, { cwd, stdio, encoding: "utf8", maxBuffer: OUTPUT_MAX });
}

/** npm calls the package as its folder is called, and counts workspaces as dependencies. */
function billOf(text, { name }) {
  const bill = JSON.parse(text);
  const isOther = (reference) => !reference.startsWith("@perigee/");
  const { component } = bill.metadata;
  const dependencies = bill.dependencies
    .filter(({ ref }) => ref === component["bom-ref"] || isOther(ref))
    .map((each) => ({ ...each, dependsOn: each.dependsOn?.filter(isOther) }));
  return {
    ...bill,
    metadata: { ...bill.metadata, component: { ...component, name } },
    components: bill.components.filter((each) => isOther(each["bom-ref"])),
    dependencies,
  };
}

/** Of a checkout's package, with the versions of its lock file. */
export function billOfCheckout(root, manifest) {
  return billOf(npm(SBOM, root), manifest);
}

/** Of a package whose dependencies have exact versions: npm resolves them anew. */
export function billOfManifest(manifest) {
  const folder = mkdtempSync(join(tmpdir(), "perigee-bill-"));
  try {
    writeFileSync(join(folder, "package.json"), JSON.stringify(manifest));
    npm(["install", "--package-lock-only", "--ignore-scripts", "--no-audit", "--no-fund"], folder);
    return billOf(npm([...SBOM, "--package-lock-only"], folder), manifest);
  } finally {
    rmSync(folder, { recursive: true });
  }
}
