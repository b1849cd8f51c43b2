"""A suite without GPU tests: nothing changes for it, and torch is not imported."""

from __future__ import annotations

import subprocess
import sys

import pytest

from .conftest import L4, Suite, lines_of

pytest_plugins = ["pytester"]

NO_TORCH_YET = """
import sys
assert "torch" not in sys.modules, "imported at collection"
"""


def test_a_suite_without_gpu_tests_sees_and_imports_nothing(suite: Suite) -> None:
    source = NO_TORCH_YET + "def test_a(): assert 'torch' not in sys.modules"
    result = suite(source, "--setup-show", gpus=[L4], process=True, devices_of=1)
    result.assert_outcomes(passed=1)
    text = result.stdout.str()
    assert "gpu-ci-" in text, "the plugin is loaded"
    assert [word for word in ("gpu:", "GPU tests", "_gpu_memory", "SETUP") if word in text] == []


@pytest.mark.parametrize("args", [["--collect-only"], ["-m", "not gpu"], ["--gpu=off"]], ids=" ".join)
@pytest.mark.slow
def test_gpu_tests_that_do_not_run_import_no_torch(suite: Suite, args: list[str]) -> None:
    source = (
        NO_TORCH_YET
        + """
import atexit
atexit.register(lambda: print("torch at the end:", "torch" in sys.modules))

@pytest.mark.gpu(count=2, memory_gib=16)
def test_a(gpu_devices): pass

def test_b(): pass
"""
    )
    result = suite(source, *args, gpus=[L4], process=True)
    assert result.ret == 0
    assert result.outlines[-1] == "torch at the end: False"


def test_a_gpu_test_that_runs_does_import_it(suite: Suite) -> None:
    source = NO_TORCH_YET + "@pytest.mark.gpu\ndef test_a(): assert 'torch' in sys.modules"
    suite(source, gpus=[L4]).assert_outcomes(passed=1)


def test_the_plugin_needs_pytest_and_the_standard_library_alone() -> None:
    code = """
import sys, pytest
before = set(sys.modules)
import pytest_gpu_ci.plugin
tops = {name.partition(".")[0] for name in set(sys.modules) - before}
print(*sorted(tops - sys.stdlib_module_names))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["pytest_gpu_ci"]


def test_tests_in_classes_of_unittest_are_gpu_tests_too(suite: Suite) -> None:
    source = """
import unittest

@pytest.mark.gpu
class TestOld(unittest.TestCase):
    kept = []
    def test_a(self):
        import torch
        self.kept.append(torch.zeros(9))
"""
    result = suite(source, gpus=[L4])
    result.assert_outcomes(passed=1, errors=1)
    assert lines_of(result) == ["1 GPU test ran on NVIDIA L4", "highest peak: 9.0 MiB in test_it.py::TestOld::test_a"]
