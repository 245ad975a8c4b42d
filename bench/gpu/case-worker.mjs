// Runs the cases that its parent names (case-dealer.mjs), by their places in the list, on a device
// of its own; tells what each one found. Ends when its parent does.
import { Pair } from "./pair.mjs";
import { listCases, openTested, runCase } from "./smoke-cases.mjs";

const { settings, selection } = JSON.parse(process.argv[2]);
const cases = await listCases(selection);
const device = await openTested(settings);
const pair = new Pair(device);

process.on("disconnect", () => process.exit(0));
process.on("message", async (place) => {
  process.send(await runCase(pair, cases[place]));
});
process.send("ready");
