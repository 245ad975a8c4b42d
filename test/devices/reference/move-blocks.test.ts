import { ReferenceDevice } from "#devices";
import { blockMoves } from "../../contracts/device-ops/block-moves.ts";

const device = new ReferenceDevice();

blockMoves(() => device);
