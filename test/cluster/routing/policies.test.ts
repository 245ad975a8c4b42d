import { ROUTING_POLICIES } from "#cluster";
import { routingPolicyContract } from "../../contracts/routing-policy.ts";

for (const name of ROUTING_POLICIES) routingPolicyContract(name);
