/** `perigee completion`: scripts that complete commands, flags and their words in a shell. */
import { Argument, type Command } from "commander";

const MANUAL = `
  source <(perigee completion bash)                    in ~/.bashrc
  source <(perigee completion zsh)                     in ~/.zshrc, after compinit
  perigee completion fish | source                     in ~/.config/fish/config.fish

The scripts hold all flags: make them again after an update. npx perigee … is not completed; put the
command into PATH (npm install --global perigee), or an alias of that name.
`;

const SHELLS = ["bash", "zsh", "fish", "man"] as const;
type Shell = (typeof SHELLS)[number];

/** `perigee completion`. */
export function defineCompletion(command: Command, all: () => Promise<Command>): void {
  command
    .addHelpText("after", MANUAL)
    .addArgument(new Argument("<shell>", "The shell; man prints the manual page.").choices(SHELLS))
    .action(async (shell: Shell) => {
      process.stdout.write(await scriptOf(shell, await all()));
    });
}

async function scriptOf(shell: Shell, root: Command): Promise<string> {
  const { commandModel } = await import("../completion/command-model.ts");
  const model = commandModel(root);
  switch (shell) {
    case "bash":
      return (await import("../completion/bash.ts")).bashCompletion(model);
    case "zsh":
      return (await import("../completion/zsh.ts")).zshCompletion(model);
    case "fish":
      return (await import("../completion/fish.ts")).fishCompletion(model);
    case "man": {
      const { packageVersion } = await import("../package-root.ts");
      return (await import("../completion/man-page.ts")).manPage(model, packageVersion());
    }
  }
}
