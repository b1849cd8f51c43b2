"""Tests of what the notebooks printed. NOTEBOOK_OUTPUT/notebooks has a folder for each notebook, by its path."""

import json
import os
import re
from pathlib import Path


def printed(name: str) -> str:
    notebook = json.loads((Path(os.environ["NOTEBOOK_OUTPUT"]) / f"notebooks/notebooks/{name}/out.ipynb").read_text())
    outputs = [each for cell in notebook["cells"] for each in cell.get("outputs", ())]
    return "".join("".join(each["text"]) for each in outputs if each["output_type"] == "stream")


def test_the_fit_has_a_small_loss():
    found = re.search(r"loss ([\d.]+)", printed("fit"))
    assert found
    assert float(found[1]) < 0.01


def test_the_number_of_primes_is_right():
    assert printed("primes").startswith("1229 ")
