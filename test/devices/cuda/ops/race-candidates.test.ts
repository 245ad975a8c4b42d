/** Races of a drafter's candidates on the emulated GPU. */
import { raceContract } from "../../../contracts/device-ops/races.ts";
import { describeEmulated, openPair } from "../describe-emulated.ts";

describeEmulated("a drafter's races, emulated", openPair, (pair) => raceContract(() => pair));
