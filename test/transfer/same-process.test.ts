import { transferContract } from "../contracts/transfer.ts";

transferContract("the same process", { server: {}, client: {} });
