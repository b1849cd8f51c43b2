"""The page about checks has every check of the code and no other."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from gpu_smoke import plan
from gpu_smoke.judge import results

from .conftest import ROOT

CHECKS = ROOT / "docs/how-it-works/gpu-checks.md"
PACKAGE = ROOT / "smoke" / "gpu_smoke"
# Calls that make a check, or say which check an error belongs to, and where among the arguments its name is.
MAKERS = {"Check": 0, "failure": 0, "judge": 0, "_check_without_result": 1}


def table(page: Path, header: str) -> list[list[str]]:
    """Return the cells of a table's rows, found by a cell of its header."""
    lines = page.read_text().splitlines()
    [start] = [number for number, line in enumerate(lines) if line.startswith("|") and f"| {header} |" in line]
    rows = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split(" | ")])
    return rows


def quoted(cells: list[str]) -> set[str]:
    """Return the names in a column. Options, which begin with dashes, are left out."""
    return {name for cell in cells for name in re.findall(r"`([^`]+)`", cell) if not name.startswith("--")}


def made(tree: ast.AST) -> Iterator[str]:
    """Yield every name of a check in the calls that make checks."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        given = [node.args[MAKERS[name]]] if name in MAKERS and len(node.args) > MAKERS[name] else []
        given += [word.value for word in node.keywords if word.arg == "check_id"]
        yield from (each.value for each in given if isinstance(each, ast.Constant) and isinstance(each.value, str))


def checks() -> set[str]:
    """Return every check of a run."""
    files = [file for file in PACKAGE.rglob("*.py") if "diagnose" not in file.parts]
    found = {name for file in files for name in made(ast.parse(file.read_text()))} | set(plan.HEALTH)
    for profile in plan.PROFILES.values():
        for stage in (*profile.gpu, *profile.host, *profile.peers, *profile.rank):
            found |= {*stage.checks, stage.error}
            # Put together from the speed that they compare.
            found |= {f"{each.partition('.')[0]}.peers" for each in stage.speeds}
    return found


def test_the_code_is_read_for_what_it_checks() -> None:
    found = checks()
    assert {"devnodes", "gemm.element", "mem.peers", "gemm.run", "gpu.lost", "torch.import", "child", "report"} <= found
    assert {name for name in found if not re.fullmatch(r"[a-z0-9]+(\.[a-z]+)?", name)} == set()


def test_every_check_has_a_row_of_the_page_of_checks_and_no_row_is_of_another() -> None:
    assert quoted([row[0] for row in table(CHECKS, "fails when")]) == checks()


def test_the_page_of_checks_has_the_limits_of_the_code() -> None:
    rows = table(CHECKS, "maximum error of the whole product")
    told = {dtype: plan.Limit(float(norm), float(element)) for dtype, norm, element in rows}
    assert told == plan.LIMITS
    says = {name: row[1] for row in table(CHECKS, "fails when") for name in quoted([row[0]])}
    assert says["gemm.bitwise"] == f"one of {plan.REPEATS['cuda']} repetitions differs in a bit"
    assert says["cudnn.conv"].endswith(f"by more than {results.CONVOLUTION:.0e}".replace("e-0", "e-"))
