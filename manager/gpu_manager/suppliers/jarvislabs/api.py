"""The part of the API of Jarvis Labs that the manager uses, with the manager's errors for its answers.

There is no reference of the API. Addresses, fields and states are those that the vendor's own SDK sends and reads
(jarvislabs 0.2.19: constants.py, instances.py, models.py). The tests compare each request with the SDK's.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
from gpu_common.secret_patterns import redact

from ...model import InsertError, printable
from ...ports import InsertRefused, Refused, Unavailable

TOKEN_FILE = "GPU_CI_JARVISLABS_TOKEN_FILE"  # noqa: S105 - the variable with the path of the file
TOKEN = "JL_API_KEY"  # noqa: S105 - the SDK's variable with the key itself, which counts without that of a file
REGIONS = {"IN1": "india-chennai-01", "IN2": "india-noida-01", "EU1": "europe-01"}
"""The API's names of the regions."""
URLS = {
    "IN1": "https://backendc.jarvislabs.net",
    "IN2": "https://backendn.jarvislabs.net",
    "EU1": "https://backendeu.jarvislabs.net",
}
_ZONES = {region: zone for zone, region in REGIONS.items()}
_DEFAULT = "IN2"
"""The region whose address answers requests about the whole account."""
_CONNECT_SEC = 3.0
# start sends at most three GETs and a POST, and no call may take more than 20 s. A POST that takes longer is found in a
# later list.
_WITHIN_SEC = {"GET": 4.0, "POST": 7.0}
_MOST_BYTES = 4_194_304
_MESSAGE_CHARACTERS = 300
# The words of refusals for missing capacity (dstack 0.22.5, backends/jarvislabs/api_client.py).
_NO_CAPACITY = ("capacity", "available", "stock")


class ApiError(Exception):
    """A request without success. `status` is that of the answer, or 0 if there is no usable answer."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status

    @property
    def is_temporary(self) -> bool:
        """True if the request may have been carried out, or may succeed later, also with another key."""
        return self.status in (0, 401, 408, 429) or self.status >= 500


@dataclass(frozen=True)
class Row:
    """A machine in the vendor's list. A resume may give it another number."""

    number: int
    """The vendor's machine_id."""
    name: str
    status: str
    """Creating, Resuming, Running, Pausing, Paused, Destroying or Failed, in lower case."""
    zone: str
    machine_type: str
    storage_gb: int
    ssh_command: str
    is_vm: bool = True
    """True for a VM with GPUs, and false for a container or a VM without GPUs."""

    @property
    def has_power(self) -> bool:
        """True if its GPUs are billed."""
        return self.status not in ("paused", "destroying", "failed")


class Api:
    """The client, for use by one thread. Each method raises ApiError."""

    def __init__(self, token_file: str = "", urls: Mapping[str, str] = URLS) -> None:
        """Create the client. By default, an environment variable has the path of the file with the API key.

        No request is sent yet. The file is read for each request, because a mounted secret may change.
        """
        self._token_file, self._urls = token_file, urls
        self._http = httpx2.Client()

    def close(self) -> None:
        self._http.close()

    def account(self) -> str:
        """Return the user id of the account."""
        return str(self._send("GET", "users/user_info")["user_id"])

    def rows(self) -> list[Row]:
        """Return all VMs and containers of the account."""
        answer = _successful(self._send("GET", "users/fetch"))
        return [_row(each) for each in answer["instances"]]

    def free(self) -> dict[str, dict[str, int]]:
        """Return how many GPUs of each type are free for VMs in each region."""
        found: dict[str, dict[str, int]] = {}
        for zone, each in self._supply():
            count = each.get("effective_num_free_devices")
            count = int((each.get("num_free_devices") if count is None else count) or 0)
            zones = found.setdefault(str(each["gpu_type"]), {})
            zones[zone] = max(zones.get(zone, 0), count)
        return found

    def usd_per_hour(self) -> dict[tuple[str, str], float]:
        """Return the price of one GPU of a VM by region and type. It is empty for an account that pays in INR."""
        # Success means that the account pays in INR (account.Account.currency of the SDK).
        if _is_successful(self._send("GET", "misc/")):
            return {}
        return {
            (zone, str(each["gpu_type"])): float(each["price_per_hour"])
            for zone, each in self._supply()
            if each.get("price_per_hour")
        }

    def _supply(self) -> Iterator[tuple[str, Any]]:
        """Yield what the vendor says about each type of GPU for VMs, with its region."""
        for each in self._send("GET", "misc/server_meta")["server_meta"]:
            if each.get("workload_type") in ("vm", None) and (zone := _ZONES.get(each["region"])):
                yield zone, each

    def create(self, name: str, zone: str, machine_type: str, storage_gb: int) -> None:
        """Request a VM. A repeated request makes another VM."""
        body = {**_vm(name, machine_type, storage_gb), "region": REGIONS[zone], "disk_type": "ssd", "fs_id": None}
        _successful(self._send("POST", "templates/vm/create", zone, body), "machine_id")

    def resume(self, row: Row) -> None:
        """Switch a paused VM on."""
        body = {**_vm(row.name, row.machine_type, row.storage_gb), "machine_id": row.number, "fs_id": None}
        _successful(self._send("POST", "templates/vm/resume", row.zone, body), "machine_id")

    def pause(self, row: Row) -> None:
        _successful(self._send("POST", f"templates/vm/pause?machine_id={row.number}", row.zone))

    def destroy(self, row: Row) -> None:
        _successful(self._send("POST", f"templates/vm/destroy?machine_id={row.number}", row.zone))

    def _send(self, method: str, path: str, zone: str = _DEFAULT, body: Mapping[str, Any] | None = None) -> Any:
        token, subject = self._token(), f"{method} {path.partition('?')[0]}"
        end = time.monotonic() + _WITHIN_SEC[method]
        timeout, content = httpx2.Timeout(_WITHIN_SEC[method] - 1, connect=_CONNECT_SEC), b""
        headers = {"Authorization": f"Bearer {token}"}
        url = f"{self._urls[zone].rstrip('/')}/{path}"
        try:
            with self._http.stream(method, url, json=body, headers=headers, timeout=timeout) as response:
                for chunk in response.iter_bytes():
                    content += chunk
                    if time.monotonic() > end or len(content) > _MOST_BYTES:
                        raise ApiError(f"{subject}: the answer is too slow or too long")
                status = response.status_code
        except httpx2.HTTPError as error:
            raise ApiError(f"{subject}: no answer from Jarvis Labs: {type(error).__name__}") from None
        try:
            value = json.loads(content.replace(token.encode(), b"..."))
        except (ValueError, RecursionError):
            value = None
        if status >= 300:
            raise ApiError(f"{subject}: Jarvis Labs answered {status}: {_message(value)}", status)
        return value

    def _token(self) -> str:
        file = self._token_file or os.environ.get(TOKEN_FILE, "")
        with suppress(OSError, ValueError):
            token = Path(file).read_text(encoding="ascii") if file else os.environ.get(TOKEN, "")
            if re.fullmatch(r"[!-~]+", token := token.strip()):
                return token
        raise ApiError(f"{file or TOKEN} has no API key; set {TOKEN_FILE} to the path of its file, or {TOKEN}", 401)


@contextmanager
def converted_errors(subject: str) -> Iterator[None]:
    """Raise Unavailable or Refused for an error of the API."""
    try:
        yield
    except ApiError as error:
        raise (Unavailable if error.is_temporary else Refused)(f"{subject}: {error}") from None
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise Unavailable(f"{subject}: the answer cannot be used: {type(error).__name__}") from None


@contextmanager
def converted_insert_errors(subject: str) -> Iterator[None]:
    """Raise Unavailable or InsertRefused for an error of the API."""
    with converted_errors(subject):
        try:
            yield
        except ApiError as error:
            if error.is_temporary:
                raise
            raise InsertRefused(_insert_error(f"{subject}: {error}", error.status)) from None


def _insert_error(text: str, status: int) -> InsertError:
    # The SDK finds a missing balance in the same way (exceptions.error_from_response). Only a person can end it, so the
    # manager waits as after a refusal.
    if status == 402 or (status == 403 and "balance" in text.lower()):
        return InsertError("refused", f"no-balance: {text}")
    if status in (200, 400, 409) and any(word in text.lower() for word in _NO_CAPACITY):
        return InsertError("no-capacity", text)
    return InsertError("refused", text)


def _vm(name: str, machine_type: str, storage_gb: int) -> dict[str, Any]:
    count, _, gpu = machine_type.partition("x")
    # script_id has no effect on a VM (a comment in dstack 0.22.5).
    return {
        "gpu_type": gpu, "num_gpus": int(count), "hdd": storage_gb, "name": name, "is_spot": False, "duration": "hour",
        "http_ports": "", "script_id": None, "script_args": "", "arguments": "",
    }  # fmt: skip


def _row(value: Mapping[str, Any]) -> Row:
    """Return an element of the list. The API has two names of some fields (models.Instance of the SDK)."""
    region = str(value.get("region") or REGIONS[_DEFAULT])
    return Row(
        number=int(value["machine_id"]),
        name=str(value.get("name") or value.get("instance_name") or ""),
        status=str(value["status"]).lower(),
        zone=_ZONES.get(region, region),
        machine_type=f"{value.get('num_gpus') or 1}x{value.get('gpu_type')}",
        storage_gb=int(re.sub(r"\D", "", str(value.get("storage_gb") or value.get("hdd"))) or 0),
        ssh_command=str(value.get("ssh_command") or value.get("ssh_str") or ""),
        is_vm=(value.get("template") or value.get("framework")) == "vm" and value.get("gpu_type") != "CPU",
    )


def _successful(answer: Any, field: str = "") -> Any:
    """Return an answer with a true `success`, which the API sometimes calls `sucess`, or with the given field.

    Raises ApiError for any other answer, with which the API refuses the request.
    """
    if not (answer.get(field) if field else _is_successful(answer)):
        raise ApiError(f"Jarvis Labs refuses it: {_message(answer)}", 200)
    return answer


def _is_successful(answer: Any) -> bool:
    return str(answer.get("success") or answer.get("sucess")).lower() == "true"


def _message(value: Any) -> str:
    given = value if isinstance(value, dict) else {}
    text = next((str(given[key]) for key in ("message", "error", "detail") if given.get(key)), "no message")
    return printable(redact(text))[:_MESSAGE_CHARACTERS]
