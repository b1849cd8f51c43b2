"""The vendor's SDK uses the fake API, and the supplier's client sends the same requests."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from gpu_manager.suppliers.jarvislabs.api import REGIONS, URLS, Api

from tests.manager.suppliers.jarvislabs.fake import ACCOUNT, TOKEN, FakeJarvisLabs, served

PYTHON = Path(__file__).parents[4] / ".venv-rented" / "bin" / "python"
PROGRAM = Path(__file__).with_name("sdk.py")

pytestmark = pytest.mark.slow


def run(*command: str | Path) -> Any:
    assert PYTHON.exists(), "jarvislabs is not installed; run: make rented-client"
    done = subprocess.run([PYTHON, *command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def ours(fake: FakeJarvisLabs, token: Path) -> None:
    """Do with the supplier's client what sdk.py does."""
    api = Api(str(token), fake.urls)
    api.free()
    api.create("l4-1", "IN2", "1xH100", 150)
    for step in (api.pause, api.resume, api.destroy):
        [row] = api.rows()
        step(row)
    assert api.usd_per_hour()["IN2", "H100"] == 2.5
    api.account()
    api.close()


def without_number(request: tuple[str, str, str, Any]) -> tuple[str, str, str, Any]:
    """Return a request without the number of a machine, which differs in each account."""
    zone, method, path, body = request
    number = {"machine_id": "number"} if body and "machine_id" in body else {}
    return zone, method, re.sub(r"(machine_id=)\d+", r"\1number", path), body and body | number


def test_the_sdk_works_with_the_fake_and_each_request_of_the_supplier_is_the_sdks(tmp_path: Path) -> None:
    with served() as fake, served() as other:
        read = run(PROGRAM, TOKEN, json.dumps(fake.urls))
        (tmp_path / "token").write_text(TOKEN)
        ours(other, tmp_path / "token")
    assert read == {
        "created": {
            "status": "Running", "name": "l4-1", "gpu_type": "H100", "num_gpus": 1, "storage_gb": 150, "region": "IN2",
        },
        "ssh": "ssh -o StrictHostKeyChecking=no -p 431 ubuntu@127.0.0.1",
        "listed": True, "paused": "Paused", "resumed": ["Running", True], "left": 0, "account": ACCOUNT,
        "currency": "USD", "price": 2.5,
    }  # fmt: skip
    assert [without_number(each) for each in other.posts()] == [without_number(each) for each in fake.posts()]
    assert [each[2].partition("?")[0] for each in other.posts()] == [
        "templates/vm/create", "templates/vm/pause", "templates/vm/resume", "templates/vm/destroy",
    ]  # fmt: skip
    reads = [each for each in other.requests if each[1] == "GET"]
    assert {each[2] for each in reads} == {"users/fetch", "users/user_info", "misc/server_meta", "misc/"}
    assert [each for each in reads if each not in fake.requests] == []


def test_regions_and_addresses_are_the_sdks() -> None:
    read = run(
        "-c", "import json, jarvislabs.constants as c; print(json.dumps([c.REGION_DISPLAY_CODES, c.REGION_URLS]))"
    )
    codes, urls = read
    assert {code: region for region, code in codes.items()} == REGIONS
    assert {codes[region]: url.rstrip("/") for region, url in urls.items()} == URLS
