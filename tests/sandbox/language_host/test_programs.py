"""Programs under the real engine, through our language host."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.sandbox.conftest import OUR_HOST, Project, needs_our_host

pytestmark = pytest.mark.engine

UP = ("up", "--stack", "dev", "--yes", "--skip-preview")


@pytest.mark.slow
def test_what_a_program_prints_is_shown_while_it_still_runs(project: Project, tmp_path: Path) -> None:
    runner = project(
        f"import os, sys, time\nprint('in', os.path.basename(os.getcwd()))\nprint('problem', file=sys.stderr)\n"
        f"while not os.path.exists({str(tmp_path / 'seen')!r}):\n    time.sleep(0.05)\nprint('released')\n"
    )
    process = runner.start(*UP)
    assert process.stdout is not None
    shown: list[str] = []
    for line in process.stdout:
        shown.append(line)
        if any("in code" in text for text in shown) and any("problem" in text for text in shown):
            break
    assert not any("released" in text for text in shown)
    (tmp_path / "seen").touch()
    rest = process.communicate(timeout=60)[0]
    assert process.returncode == 0
    assert "released" in rest


def test_a_program_that_raises_shows_its_own_lines_and_fails(project: Project) -> None:
    finished = project("import pulumi\n\ndef broken():\n    raise KeyError('a key')\n\nbroken()\n").run(*UP, ok=False)
    assert finished.has("Program failed with an unhandled exception", "in broken", "KeyError: 'a key'")
    assert "language_host" not in finished.output
    assert "exited with non-zero exit code" not in finished.output  # the language host reports that the error was shown


@pytest.mark.slow
@needs_our_host
def test_a_missing_virtual_environment_is_named_with_what_makes_it(project: Project) -> None:
    runner = project("", "    virtualenv: gone\n")
    # Pulumi's own host makes one instead, and installs into it.
    finished = runner.run(*UP, ok=False, **OUR_HOST)
    assert finished.has("runtime.options.virtualenv", "does not exist", "hint: create the environment")


PLUGIN = """
import pulumi
import pulumi.provider

class Host(pulumi.provider.Provider):
    def construct(self, name, resource_type, inputs, options=None):
        made = pulumi.ComponentResource(resource_type, name, {}, options)
        return pulumi.provider.ConstructResult(made.urn, {"shout": inputs["text"].apply(str.upper)})

if __name__ == "__main__":
    import sys
    pulumi.provider.main(Host("1.0.0"), sys.argv[1:])
"""

CONSUMER = """
import pulumi

class Shout(pulumi.ComponentResource):
    shout: pulumi.Output[str]
    def __init__(self, name, text):
        super().__init__("loud:index:Shout", name, {"text": text, "shout": None}, None, remote=True)

pulumi.export("shout", Shout("s", pulumi.Output.from_input("quiet")).shout)
"""


def test_a_component_plugin_written_in_python_is_run_for_a_stack(project: Project) -> None:
    runner = project(CONSUMER)
    plugin = runner.project / "loud plugin"
    plugin.mkdir()
    (plugin / "PulumiPlugin.yaml").write_text(
        f"name: loud\nruntime: {{name: python, options: {{virtualenv: '{sys.prefix}'}}}}\nversion: 1.0.0\n"
    )
    (plugin / "__main__.py").write_text(PLUGIN)
    with (runner.project / "Pulumi.yaml").open("a") as file:
        file.write("plugins:\n  providers:\n    - name: loud\n      path: ./loud plugin\n")
    runner.run(*UP)
    assert runner.json("stack", "output", "--stack", "dev", "--json") == {"shout": "QUIET"}
    assert runner.gone() == {}
