"""The files of a new supplier of machines: they are imported as they are written."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
from gpu_ci.cli.new_files import render
from gpu_manager import suppliers
from gpu_manager.ports import Supplier, Unavailable

from tools.install import ROOT

NAMES = {"name": "night-vendor", "module": "night_vendor", "class_name": "NightVendor"}


def test_a_new_supplier_answers_nothing_until_it_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "night_vendor"
    folder.mkdir()
    for path, text in render(ROOT / "tools/scaffold/templates/supplier", NAMES, ".j2").items():
        (folder / path).write_text(text)
    monkeypatch.setattr(suppliers, "__path__", [*suppliers.__path__, str(tmp_path)])
    made: Supplier = importlib.import_module("gpu_manager.suppliers.night_vendor.supplier").SUPPLIER("staging")
    with pytest.raises(Unavailable, match="night-vendor: the list of machines is not written yet"):
        made.list([])
    assert made.preempted([]) == frozenset()
