// The package of a platform's prebuilt libraries: its package.json and licences, beside what
// tools/build-native.mjs --portable puts there.
import { copyFileSync, existsSync, mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** Platforms that libraries are built for on Linux. */
export const PORTABLE_PLATFORMS = ["linux-x64", "linux-arm64"];

/** `@perigee/native-linux-x64`. */
export const nativeName = (platform) => `@perigee/native-${platform}`;

function manifestOf(platform, { version, license }) {
  const [os, cpu] = platform.split("-");
  return {
    name: nativeName(platform),
    version,
    description: `Perigee's native libraries for ${platform}`,
    license,
    ...{ os: [os], cpu: [cpu] },
    // npm leaves it out where the system's C library is another one.
    ...(os === "linux" && { libc: ["glibc"] }),
    // Yarn's Plug'n'Play leaves packages in archives, from which no system loads a library.
    preferUnplugged: true,
    files: ["*.so", "*.dylib", "LICENSE", "NOTICES.txt"],
  };
}

/** Completes packages/native-<platform> of a checkout, and returns its folder. */
export function completeNativePackage(root, platform, manifest) {
  const folder = join(root, "packages", `native-${platform}`);
  mkdirSync(folder, { recursive: true });
  const text = `${JSON.stringify(manifestOf(platform, manifest), null, 2)}\n`;
  writeFileSync(join(folder, "package.json"), text);
  copyFileSync(join(root, "LICENSE"), join(folder, "LICENSE"));
  const prebuilt = join(root, "native", "grammar", "prebuilt");
  const grammar = join(prebuilt, platform);
  if (existsSync(grammar)) {
    for (const name of readdirSync(grammar)) copyFileSync(join(grammar, name), join(folder, name));
    copyFileSync(join(prebuilt, "NOTICES.txt"), join(folder, "NOTICES.txt"));
  }
  return folder;
}
