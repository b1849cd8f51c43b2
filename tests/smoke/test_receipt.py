"""The receipt and the message: their form, and that they survive what is done to them."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from .conftest import ONE_GPU, ROOT, Smoke, environment

NUMBER, NULL = (int, float), type(None)
# smoke/1. A type is a value's; a tuple, any of them; a dict, an object with these keys, `?` marking those that may be
# missing; a list, an array of such values; a pattern, a string; a set, one of these.
CHECK = {
    "id": re.compile(r"[a-z]+(\.[a-z]+)?"),
    "status": {"pass", "warn", "fail", "skip", "error"},
    "message": re.compile(r".+"),
    "gpu?": int,
    "dtype?": {"float32", "float16", "bfloat16"},
    "severity?": {"env", "gpu", "hang"},
    "action?": {"fix-image", "fix-driver", "fix-pool", "reboot", "replace-node", "none"},
    "hint?": re.compile(r".+"),
    "value?": NUMBER,
    "fail_above?": NUMBER,
}
PRODUCT = {
    "gpu": (int, NULL),
    "dtype": {"float32", "float16", "bfloat16"},
    "n": int,
    "finite": bool,
    "norm_error": (*NUMBER, NULL),
    "element_error": (*NUMBER, NULL),
    "repeats": int,
    "same": int,
    "hash": re.compile(r"[0-9a-f]{16}"),
    "seconds": NUMBER,
}
SCHEMA = {
    "schema": {"smoke/1"},
    "ok": bool,
    "verdict": {"pass", "fail", "incomplete"},
    "exit_code": {0, 1, 2, 4, None},
    "summary": re.compile(r".+"),
    "action": CHECK["action?"],
    "device": {"cuda", "cpu"},
    "started": re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"),
    "seconds": NUMBER,
    "budget_seconds": NUMBER,
    "tool": re.compile(r"\d+\.\d+\.\d+"),
    "pool": {"name": str},
    "expected": {"gpus": int, "name": str, "min_compute_capability": str},
    "host": {"kernel": str, "machine": str, "python": str, "driver?": str, "unkillable?": [int]},
    "torch": {"version?": str, "cuda?": (str, NULL), "arch_list?": [str]},
    "gpus": [{"index": int, "name": str, "uuid": str, "cc": re.compile(r"\d+\.\d"), "sm": int, "mem_bytes": int}],
    "products": [PRODUCT],
    "checks": [CHECK],
}


def faults_of(value: Any, schema: Any, path: str = "receipt") -> list[str]:
    """Where a value is not what the schema says."""
    if isinstance(schema, dict):
        known = {key.rstrip("?"): key for key in schema}
        missing = [f"{path}: no {key}" for key in schema if not key.endswith("?") and key not in value]
        unknown = [f"{path}: unknown {key}" for key in value if key not in known]
        inner = [f for k, v in value.items() if k in known for f in faults_of(v, schema[known[k]], f"{path}.{k}")]
        return missing + unknown + inner
    if isinstance(schema, list):
        if not isinstance(value, list):
            return [f"{path}: no list"]
        return [fault for index, item in enumerate(value) for fault in faults_of(item, schema[0], f"{path}[{index}]")]
    if isinstance(schema, set):
        right = value in schema
    elif isinstance(schema, re.Pattern):
        right = isinstance(value, str) and schema.fullmatch(value) is not None
    else:
        right = isinstance(value, schema) and (schema is bool or not isinstance(value, bool))
    return [] if right else [f"{path}: {value!r}"]


def test_the_schema_test_can_fail() -> None:
    broken = {"schema": "smoke/2", "ok": 1, "checks": [{"id": "x", "status": "fine", "message": ""}], "more": 1}
    found = faults_of(broken, SCHEMA)
    assert "receipt.schema: 'smoke/2'" in found
    assert "receipt.ok: 1" in found
    assert "receipt.checks[0].status: 'fine'" in found
    assert "receipt.checks[0].message: ''" in found
    assert "receipt: unknown more" in found
    assert "receipt: no verdict" in found


@pytest.mark.parametrize(
    "fake",
    [
        {},
        {"gpus": []},
        {"cuda": None},
        {"import": "No module named 'torch'"},
        {"import": "SIGSEGV"},
        {"faults": [{"kind": "value", "value": "nan"}]},
        {"faults": [{"kind": "raise", "text": "CUDA error: \x1b[31mred\x00\nmore"}]},
    ],
    ids=str,
)
@pytest.mark.parametrize("device", ["cuda", "cpu"])
def test_every_receipt_has_the_form_of_its_schema(smoke: Smoke, device: str, fake: dict[str, Any]) -> None:
    run = smoke("--device", device, **fake)
    assert faults_of(run.receipt, SCHEMA) == []
    assert run.summary.isprintable()
    wrong = [check for check in run.receipt["checks"] if check["status"] in ("fail", "error")]
    assert all({"severity", "action", "hint"} <= check.keys() for check in wrong)
    assert (run.code == 0) == (wrong == [])


def test_a_dash_sends_the_receipt_alone_to_standard_output(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "gpu_smoke", "--json", "-"],
        env=environment(gpus=ONE_GPU),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0
    assert faults_of(json.loads(done.stdout), SCHEMA) == []
    assert list(tmp_path.iterdir()) == []


def test_the_table_is_for_people_and_ends_with_the_summary(smoke: Smoke) -> None:
    run = smoke("--expect-gpus", "2")
    lines = run.stderr.splitlines()
    assert lines[-1] == "gpu-smoke: 1 GPU found, 2 expected"
    assert lines[-2].startswith("  hint: ")
    [count] = [line for line in lines if line.startswith("gpu.count")]
    assert count.split() == ["gpu.count", "-", "fail", "1", "GPU", "found,", "2", "expected"]


def test_the_message_is_cut_to_4000_bytes_between_characters(smoke: Smoke) -> None:
    # Names of two-byte characters, one byte apart in the two runs: the cut must hit one in the middle once.
    lengths = set()
    for prefix in ("", "x"):
        gpus = [{"name": prefix + "é" * 250, "uuid": str(index)} for index in range(4)]
        run = smoke("--expect-gpu", "L4", "--expect-gpus", "4", "--min-compute-capability", "9.0", gpus=gpus)
        assert run.code == 2
        assert "\ufffd" not in run.message
        assert run.message.startswith(f"GPU 0 is {prefix}éé")
        lengths.add(len(run.message.encode()))
    assert lengths == {3999, 4000}


def test_a_failure_says_its_summary_then_a_hint_then_the_rest(smoke: Smoke) -> None:
    run = smoke("--expect-gpus", "2", "--expect-gpu", "H100", "--pool", "h")
    assert run.message.splitlines() == [
        "h: 1 GPU found, 2 expected (and 1 more)",
        "hint: a GPU is broken or not handed to this container: compare nvidia-smi -L here and on the machine",
        "gpu.count: 1 GPU found, 2 expected",
        "gpu.name: GPU 0 is NVIDIA L4, expected H100",
    ]


def test_what_is_no_file_is_written_to_and_stays_what_it_was(tmp_path: Path) -> None:
    pipe = tmp_path / "log"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDWR)  # both, so that nobody waits for the other
    try:
        done = subprocess.run(
            [sys.executable, "-m", "gpu_smoke", "--termination-log", pipe],
            env=environment(gpus=ONE_GPU),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert os.read(reader, 10_000).decode().endswith("the same every time\n")
    finally:
        os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert list(tmp_path.iterdir()) == [pipe]


def test_a_pass_whose_receipt_is_lost_is_no_pass(tmp_path: Path) -> None:
    folder = tmp_path / "receipts"
    folder.mkdir()
    # The folder goes away once the check has begun.
    program = (
        "import shutil, sys; from gpu_smoke import __main__, parent; real = parent.run; "
        f"parent.run = lambda *args: (shutil.rmtree({str(folder)!r}), real(*args))[1]; sys.exit(__main__.main())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "--json", folder / "receipt.json"],
        env=environment(gpus=ONE_GPU),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "cannot be written" in done.stderr.splitlines()[-1]


@pytest.mark.parametrize(("faults", "code"), [([], 0), ([{"kind": "element", "by": 3}], 1)])
@pytest.mark.parametrize("streams", ["2>&1 | true", "2>&1 >&- | true", ">&- 2>&- <&-"])
def test_a_reader_that_is_not_there_does_not_change_the_verdict(
    streams: str, faults: list[dict[str, Any]], code: int
) -> None:
    command = f'"{sys.executable}" -m gpu_smoke --json - {streams}; exit "${{PIPESTATUS[0]}}"'
    fake = environment(gpus=ONE_GPU, faults=faults)
    assert subprocess.run(["bash", "-c", command], env=fake, check=False, timeout=60).returncode == code


def test_the_package_is_small_enough_for_a_machines_metadata() -> None:
    files = sorted((ROOT / "smoke" / "gpu_smoke").rglob("*"))
    sources = [file for file in files if file.suffix == ".py"]
    assert [file for file in files if file.is_file() and file.suffix not in (".py", ".pyc")] == []
    assert 10_000 < sum(file.stat().st_size for file in sources) < 80_000
