"""`gpu-ci completion`: prints click's completion script for a shell, with instructions to install it."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from gpu_ci.cli.output import print_json

VARIABLE = "_GPU_CI_COMPLETE"
INSTALL = {
    "bash": 'add this line to ~/.bashrc:  eval "$(gpu-ci completion bash)"',
    "zsh": 'add this line to ~/.zshrc, below compinit:  eval "$(gpu-ci completion zsh)"',
    "fish": "gpu-ci completion fish > ~/.config/fish/completions/gpu-ci.fish",
}


@click.command("completion")
@click.argument("shell", type=click.Choice(list(INSTALL)))
@click.option("--json", "as_json", is_flag=True, help="Print the script and how to install it as JSON.")
def command(shell: str, as_json: bool) -> None:
    """Print a script that completes commands, options, machines, GPUs, regions and zones in a shell.

    \b
    Examples:
      eval "$(gpu-ci completion bash)"                                      bash, this terminal
      echo 'eval "$(gpu-ci completion zsh)"' >> ~/.zshrc                    zsh, every terminal
      gpu-ci completion fish > ~/.config/fish/completions/gpu-ci.fish       fish, every terminal
    """
    from gpu_ci.cli.commands import gpu_ci

    writer = get_completion_class(shell)
    assert writer is not None, "click supports these shells"  # noqa: S101 - for the type checker
    complete = writer(gpu_ci, {}, "gpu-ci", VARIABLE)
    # The method `source` would also start the shell to get its version.
    script = (complete.source_template % complete.source_vars()).strip()
    if as_json:
        print_json({"shell": shell, "install": INSTALL[shell], "script": script})
        return
    click.echo(f"# {INSTALL[shell]}\n{script}")
