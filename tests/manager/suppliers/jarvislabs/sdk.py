"""Uses the account with the vendor's SDK. It runs in .venv-rented, without this project.

    python sdk.py TOKEN '{"IN2": "http://127.0.0.1:8000/IN2", ...}'

Creates a VM, lists it, pauses and resumes it, destroys it, and prints what the SDK has read, as JSON.
"""

from __future__ import annotations

import json
import sys

from jarvislabs import Client, constants, instances

token, urls = sys.argv[1], json.loads(sys.argv[2])
for region, code in constants.REGION_DISPLAY_CODES.items():
    constants.REGION_URLS[region] = urls[code]
instances.POLL_INTERVAL_S = 0.05
read = {}
with Client(api_key=token) as client:
    made = client.instances.create(gpu_type="H100", num_gpus=1, template="vm", storage=150, name="l4-1", region="IN2")
    read["created"] = made.model_dump(include={"status", "name", "gpu_type", "num_gpus", "storage_gb", "region"})
    read["ssh"] = made.ssh_command
    read["listed"] = [each.machine_id for each in client.instances.list()] == [made.machine_id]
    client.instances.pause(made.machine_id)
    read["paused"] = client.instances.get(made.machine_id).status
    resumed = client.instances.resume(made.machine_id)
    read["resumed"] = [resumed.status, resumed.machine_id != made.machine_id]
    client.instances.destroy(resumed.machine_id)
    read["left"] = len(client.instances.list())
    read["currency"] = client.account.currency()
    read["price"] = client.account.gpu_availability()[0].price_per_hour
    read["account"] = client.account.user_info().user_id
print(json.dumps(read))
