"""The data files: readable as text, complete as data, and the only table of machines."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import gpu_catalog
from gpu_catalog import data_files

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted(data_files.DATA.glob("*.json"))

# Every form in which Google and AWS name a machine type with a GPU, or one that takes some.
MACHINE_TYPE = re.compile(
    r"\b(?:a\dx?-[a-z]+gpu-\d+g|g\d-standard-\d+|n1-(?:standard|highmem|highcpu)-\d+"
    r"|(?:g\d[a-z]*|gr\d[a-z]*|p\d[a-z]*(?:-[a-z]+\d+)?)\.(?:\d*xlarge|large|metal))\b"
)
CODE = ("agent", "common", "components", "infra", "preview", "sandbox", "smoke", "tools")


def test_every_record_has_a_line_of_its_own() -> None:
    wrong = []
    for file in FILES:
        document = json.loads(file.read_text())
        lines = [line.strip().removesuffix(",") for line in file.read_text().splitlines()]
        records = [json.loads(line) for line in lines if line.startswith("{") and line != "{"]
        if records != document["rows"] or not document["about"].endswith("."):
            wrong.append(file.name)
    assert len(FILES) > 20
    assert wrong == []


def test_every_source_that_is_named_is_known() -> None:
    unknown = set()
    for file in FILES:
        document = json.loads(file.read_text())
        layers = [document.get("sources", {}), *(row.get("sources", {}) for row in document["rows"])]
        named = {key for layer in layers for keys in layer.values() for key in keys}
        named |= {row["source"] for row in document["rows"] if "source" in row}
        unknown |= {(file.name, key) for key in named - set(data_files.sources())}
    assert unknown == set()


def test_every_source_is_used() -> None:
    text = "".join(file.read_text() for file in FILES if file.stem != "sources")
    assert [key for key in data_files.sources() if f'"{key}"' not in text] == []


def test_a_machine_that_is_priced_is_a_machine_there_is() -> None:
    known = {*gpu_catalog.machine_types(), *gpu_catalog.attachable()}
    assert {row.get("machine_type") or row["accelerator"] for row in data_files.rows("prices")} <= known
    assert {row["machine_type"] for row in data_files.rows("aws_spot")} <= known


def test_there_is_no_second_table_of_machines() -> None:
    """An example or a hint names one machine type. A file that names three is a second table."""
    files = [path for folder in CODE for path in (ROOT / folder).rglob("*") if path.suffix in (".py", ".json", ".yaml")]
    assert len(files) > 100
    found = {str(path.relative_to(ROOT)): sorted(set(MACHINE_TYPE.findall(path.read_text()))) for path in files}
    assert {path: names for path, names in found.items() if len(names) > 2} == {}


def test_importing_loads_no_catalog_and_importing_the_catalog_reads_no_data() -> None:
    code = """
import sys
import gpu_ci, gpu_ci.naming
gpu_ci.kind_names()
print("gpu_catalog" in sys.modules)
import gpu_catalog, gpu_catalog.data_files
print(gpu_catalog.data_files.document.cache_info().currsize)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "0"]


def test_the_names_it_offers_are_there() -> None:
    assert [name for name in gpu_catalog.__all__ if not hasattr(gpu_catalog, name)] == []
    assert sorted(set(gpu_catalog.__all__)) == sorted(gpu_catalog.__all__)
