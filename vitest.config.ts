import { defineConfig } from "vitest/config";
import { BaseSequencer, type TestSpecification } from "vitest/node";
import { BUILT, fromBuild, isBuildCurrent } from "./test/support/from-build.ts";
import { full, sized } from "./test/support/full.ts";

const minuteMs = 60_000;

/** The longest file begins first, so that the other worker is not idle at the end. */
class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    const isLong = ({ moduleId }: TestSpecification) => /hostile|chaos|emulated/.test(moduleId);
    return [...sorted.filter(isLong), ...sorted.filter((file) => !isLong(file))];
  }
}

/** Long and watching runs have the source, and so have all as long as it is newer than the build. */
const usesBuild = !full && process.argv.includes("run") && isBuildCurrent();
// A name of our own: packages that have their source under "source" shall be run as built.
const conditions = usesBuild ? [] : ["perigee-source"];

export default defineConfig({
  plugins: usesBuild ? [fromBuild()] : [],
  ssr: { resolve: { conditions } },
  resolve: { conditions },
  test: {
    include: ["test/**/*.test.ts"],
    exclude: ["dist", "node_modules"],
    testTimeout: sized(minuteMs, 20 * minuteMs),
    hookTimeout: sized(2 * minuteMs, 20 * minuteMs),
    // A server measures its steps for two seconds before it serves: hundreds are started.
    env: sized({ PERIGEE_SPECULATIVE_MEASURE_MS: "0" }, {}),
    // What is waited for is looked at this often; the default, 50, is longer than most waits.
    expect: { poll: { interval: 5 } },
    server: { deps: { external: usesBuild ? [BUILT] : [] } },
    pool: "forks",
    // One more than two cores run: files wait for processes and threads that they start.
    maxWorkers: sized(3, 2),
    // A process per file spends more time on imports than most files on tests. The long run has one,
    // so that a file that works only before or after another one fails in one of the two.
    isolate: full,
    sequence: { sequencer: LongestFirst },
  },
});
