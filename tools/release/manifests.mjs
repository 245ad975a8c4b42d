// The package.json files of a release's tarballs, made from the checkout's.
import { nativeName } from "../native/package-manifest.mjs";

/**
 * perigee's: with the native packages as optional dependencies, which a checkout must not have
 * before they are published, and without what only a checkout uses.
 */
export function publishedManifest(manifest, platforms) {
  const { devDependencies, scripts, workspaces, ...rest } = manifest;
  const native = platforms.map((platform) => [nativeName(platform), manifest.version]);
  return {
    ...rest,
    // Yarn's Plug'n'Play leaves packages in archives: threads and models are files.
    preferUnplugged: true,
    scripts: { postinstall: scripts.postinstall },
    optionalDependencies: { ...rest.optionalDependencies, ...Object.fromEntries(native) },
  };
}

/** @perigee/ai-sdk's: of the version that it was tested with. Throws where the two differ. */
export function aiSdkManifest(own, { version }) {
  if (own.version !== version) {
    const wanted = `must have perigee's version ${version}, current value is ${own.version}`;
    throw new Error(`packages/ai-sdk/package.json ${wanted}; set it`);
  }
  for (const [name, range] of Object.entries(own.dependencies)) {
    if (/^(workspace|file|link):/.test(range)) {
      const wanted = `${name} must be of the registry, current value is ${range}`;
      throw new Error(`packages/ai-sdk/package.json: ${wanted}`);
    }
  }
  return own;
}
