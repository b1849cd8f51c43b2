"""Our binding of NVML, compared with nvidia-ml-py: the same names, layouts and answers over the same library."""

from __future__ import annotations

import ast
import ctypes
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pynvml
import pytest
from gpu_smoke.measure import libnvml, nvml

from .. import nvml_library
from ..checks.test_nvml_health import statuses
from ..conftest import Smoke, environment
from ..paths import ROOT

STRUCTS = [
    name
    for name, kind in vars(libnvml).items()
    if isinstance(kind, type) and issubclass(kind, ctypes.Structure | ctypes.Union)
]
CONSTANTS = [name for name in vars(libnvml) if name.startswith(("NVML_", "nvmlEventType"))]
USED = sorted(
    {
        node.attr
        for node in ast.walk(ast.parse(Path(nvml.__file__).read_text()))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "lib"
    }
    - {"NVMLError"}
)
FUNCTIONS = [name for name in USED if name not in CONSTANTS]
# As much as a GPU can have at once.
BUSY: dict[str, Any] = {
    "gpus": [
        {
            "mig": [1, 0], "slices": ["MIG-a"], "uncorrected": 2**40, "rows": [1, 2, 1, 0], "low": 3, "none": 4,
            "pages": 70, "pending": 1, "recovery": 2, "reasons": 2**33 + 8, "links": [1, 0], "link_errors": 2**35,
            "processes": [[*range(4242, 4262)]], "used": 2**36, "replays": 81,
        }
    ],
    "xids": [{"code": 79}],
}  # fmt: skip
REFUSED = {"gpus": [{"refuse": {name: 999 for name in FUNCTIONS if name != "nvmlDeviceGetHandleByIndex"}}]}


def layout(kind: Any) -> tuple[int, list[tuple[str, int, int]]]:
    """Return the size of a structure, and the offset of each field."""
    names = [name for name, *_ in getattr(kind, "_fields_", ())]
    return ctypes.sizeof(kind), [(name, getattr(kind, name).offset, getattr(kind, name).size) for name in names]


@pytest.mark.parametrize("name", STRUCTS)
def test_each_struct_lies_in_memory_as_nvidia_ml_pys_does(name: str) -> None:
    assert layout(getattr(libnvml, name)) == layout(getattr(pynvml, name))


@pytest.mark.parametrize("name", CONSTANTS)
def test_each_constant_is_nvidia_ml_pys(name: str) -> None:
    assert getattr(libnvml, name) == getattr(pynvml, name)


def test_it_has_what_is_used_of_nvidia_ml_py_and_no_more() -> None:
    assert [name for name in USED if not hasattr(libnvml, name)] == []
    own = {name for name in vars(libnvml) if name.startswith("nvml") and name not in CONSTANTS}
    assert sorted(own | set(libnvml._GETTERS)) == FUNCTIONS
    assert (len(STRUCTS), len(CONSTANTS), len(FUNCTIONS)) == (8, 16, 36)


def answers(module: str, folder: Path, nvml: dict[str, Any]) -> Any:
    """Return the answer of each function in a process that finds the library in this folder."""
    done = subprocess.run(
        [sys.executable, ROOT / "tests" / "smoke" / "nvml_answers.py", module, *FUNCTIONS],
        env={"PYTHONPATH": str(ROOT / "smoke"), **nvml_library.variables(folder, nvml)},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return json.loads(done.stdout)


@pytest.mark.parametrize("nvml", [{}, BUSY, REFUSED], ids=["idle", "busy", "refused"])
def test_each_function_answers_as_nvidia_ml_pys_does(nvml_folder: Path, nvml: dict[str, Any]) -> None:
    ours, theirs = (answers(module, nvml_folder, nvml) for module in ("gpu_smoke.measure.libnvml", "pynvml"))
    assert ours == theirs
    assert {*FUNCTIONS, "the UUID of a slice"} == set(ours)


def test_a_missing_function_and_a_missing_library_have_the_errors_of_nvidia_ml_py(tmp_path: Path) -> None:
    old, none = tmp_path / "old", tmp_path / "none"
    old.mkdir()
    none.mkdir()
    nvml_library.compile_library(old, "-DOLD")
    (none / "libnvidia-ml.so.1").touch()  # no library, and found before one that this machine may have
    for module in ("gpu_smoke.measure.libnvml", "pynvml"):
        assert answers(module, old, {})["nvmlDeviceGetCurrentClocksEventReasons"] == {"NVMLError": 13}
        assert answers(module, none, {}) == {"nvmlInit": {"NVMLError": 12}}


def test_the_clock_reasons_of_an_older_driver_are_read_by_their_older_name(smoke: Smoke, tmp_path: Path) -> None:
    run = smoke(
        "--profile", "standard", library=nvml_library.compile_library(tmp_path, "-DOLD"),
        nvml={"gpus": [{"reasons": 0x40}]}, lasts={"gemm": 1.5},
    )  # fmt: skip
    assert statuses(run)["throttle"] == "warn"


def test_an_installed_nvidia_ml_py_does_not_come_into_runs_that_have_none() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import pynvml"], env=environment(), capture_output=True, text=True, check=False
    )
    assert done.stderr.splitlines()[-1] == "ModuleNotFoundError: No module named 'pynvml'"
