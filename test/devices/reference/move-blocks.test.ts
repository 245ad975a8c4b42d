import { ReferenceDevice } from "#devices";
import { blockMoves, peerPools, tokenMoves } from "../../contracts/device-ops/block-moves.ts";

const device = new ReferenceDevice();

blockMoves(() => device);
tokenMoves(() => device);
peerPools(() => device);
