import { expect, test } from "vitest";
import { misspeltVariables } from "../../../src/cli/configuration/misspelt-variables.ts";
import { loadProgram } from "../../../src/cli/program.ts";
import { perigeeInside } from "../perigee.ts";

async function misspelt(environment: Record<string, string>, name = "doctor") {
  const root = await loadProgram(name);
  const command = root.commands.find((each) => each.name() === name) ?? root;
  return await misspeltVariables(environment, command, () => loadProgram("*"));
}

test("a variable that is close to one of ours is told, with the one that was meant", async () => {
  expect(await misspelt({ PERIGEE_API_KEY_FLIE: "keys", PERIGEE_PROT: "1" })).toEqual([
    { variable: "PERIGEE_API_KEY_FLIE", meant: "PERIGEE_API_KEY_FILE" },
    { variable: "PERIGEE_PROT", meant: "PERIGEE_PORT" },
  ]);
});

test("variables of other commands, of no command and of Kubernetes are left alone", async () => {
  const environment = {
    PERIGEE_PORT: "1",
    PERIGEE_CONFIG: "",
    PERIGEE_MODEL: "models/pocket",
    PERIGEE_EMBEDDER_API_KEY: "key",
    PERIGEE_SOMETHING_ELSE_ALTOGETHER: "1",
    PERIGEE_SERVICE_HOST: "10.0.0.1",
    PERIGEE_SERVICE_PORT: "80",
    PERIGEE_PORT_80_TCP: "tcp://10.0.0.1:80",
    PERIGEE_REDIS_PORT: "tcp://10.0.0.1:6379",
    HOST: "x",
  };
  expect(await misspelt(environment)).toEqual([]);
});

test("a command says so on standard error, and goes on", async () => {
  process.env.PERIGEE_API_KYE = "secret-1";
  try {
    const { code, stdout, stderr } = await perigeeInside(["generate", "--print-config"]);
    expect(code).toBe(0);
    expect(stdout).toContain("generate:");
    expect(stderr).toContain(
      "warning: PERIGEE_API_KYE is no variable of perigee and is not read; did you mean PERIGEE_API_KEY?",
    );
    expect(stderr).not.toContain("secret-1");
  } finally {
    delete process.env.PERIGEE_API_KYE;
  }
});
