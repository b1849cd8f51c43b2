"""Read and write the cases with the answers of the API server."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

from tools.kubernetes_cases.recording import Case

PATH = Path(__file__).parent / "cases.json.gz"


def read() -> list[Case]:
    return [Case(**{**row, "answer": tuple(row["answer"])}) for row in json.loads(gzip.decompress(PATH.read_bytes()))]


def write(cases: Iterable[Case]) -> None:
    rows = [{name: value for name, value in asdict(each).items() if value is not None} for each in cases]
    # The archive has no time, so that the same cases are the same bytes.
    PATH.write_bytes(gzip.compress(json.dumps(rows, separators=(",", ":")).encode(), mtime=0))
