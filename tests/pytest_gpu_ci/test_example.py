"""The example suite with real torch on the CPU, and the page about the plugin."""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
from _pytest.fixtures import FixtureFunctionDefinition
from pytest_gpu_ci import needs, plugin

from .conftest import L4, Suite

pytest_plugins = ["pytester"]

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "gpu-tests"
PAGE = ROOT / "docs/guides/gpu-tests.md"


def example(python: Path, *args: str) -> subprocess.CompletedProcess[str]:
    """Return an environment with both pytest and torch."""
    packages = Path(pytest.__file__).resolve().parents[1]
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": os.pathsep.join([str(ROOT / "smoke"), str(packages)]),
        "PYTHONDONTWRITEBYTECODE": "1",
        "CUDA_VISIBLE_DEVICES": "",
        "TORCHINDUCTOR_CACHE_DIR": os.environ["TORCHINDUCTOR_CACHE_DIR"],
        # On a busy machine, threads that wait for each other take longer than one does.
        "OMP_NUM_THREADS": "1",
    }
    return subprocess.run(
        [python, "-m", "pytest", "-p", "no:cacheprovider", *args],
        cwd=EXAMPLE,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=250,
    )


@pytest.mark.slow
def test_the_example_runs_on_a_cpu_and_skips_what_needs_gpus(torch_python: Path) -> None:
    done = example(torch_python)
    assert done.returncode == 0, done.stdout
    lines = done.stdout.splitlines()
    assert " 9 passed, 17 skipped in " in lines[-1]
    at = lines.index("17 did not run; here: no GPU (CUDA_VISIBLE_DEVICES is '')")
    assert lines[at + 1 : at + 5] == [
        "  13: needs 1 GPU",
        "  2: needs 2 GPUs",
        "  1: needs 1 GPU, 8 GiB",
        "  1: needs 1 GPU, compute capability 8.0 or more",
    ]


def fenced(language: str, start: str) -> str:
    """Return the one block of the page in this language that begins with this text."""
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    [found] = [text for name, text in blocks if name == language and text.startswith(start)]
    return str(found)


@pytest.mark.parametrize(("gpus", "outcomes"), [([L4, L4], {"passed": 2}), ([L4], {"passed": 1, "skipped": 1})])
def test_the_pages_tests_run_as_written(suite: Suite, gpus: list[object], outcomes: dict[str, int]) -> None:
    suite(fenced("python", "import pytest"), gpus=gpus).assert_outcomes(**outcomes)


def test_the_page_has_the_plugins_message_for_a_leak(suite: Suite) -> None:
    source = "import torch\nkept = []\n@pytest.mark.gpu\ndef test_a(): kept.append(torch.zeros(12))"
    assert fenced("", "leaked ") in suite(source, gpus=[L4]).stdout.str()


def rows(heading: str) -> dict[str, str]:
    """Return the first two cells of each row of the table below a heading."""
    table = PAGE.read_text().split(f"\n## {heading}\n")[1].split("\n## ")[0]
    cells = [line.strip("|").split(" | ") for line in table.splitlines() if line.startswith("| `")]
    return {row[0].strip(" `"): row[1].strip() for row in cells}


def test_the_page_has_the_plugins_text_for_each_marker_argument_option_and_fixture() -> None:
    assert rows("Markers") == {
        **{name: text.partition(";")[0] for name, text in plugin.MARKERS.items()},
        **{f"{name}=": meaning for name, (_, _, meaning) in needs.ARGUMENTS.items()},
    }
    assert rows("Options") == {**plugin.OPTIONS, "gpu_leak_mib": plugin.LEAK_INI}
    fixtures = {name for name, value in vars(plugin).items() if isinstance(value, FixtureFunctionDefinition)}
    assert set(rows("Fixtures")) == {name for name in fixtures if not name.startswith("_")}


def test_pytest_finds_the_plugin_by_itself() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {"gpu-ci": "pytest_gpu_ci.plugin"}
