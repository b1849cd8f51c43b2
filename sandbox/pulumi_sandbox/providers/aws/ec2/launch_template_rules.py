"""Rules for EC2 launch templates that are in no schema, each with its source.

- "upstream": terraform-provider-aws, internal/service/ec2/ec2_launch_template.go (at 025e4f81).
- "EC2 schema": the descriptions in CloudFormation's schema of AWS::EC2::LaunchTemplate.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from pulumi_sandbox.providers.aws.ec2 import instance_types
from pulumi_sandbox.providers.inputs import is_known, rows, table
from pulumi_sandbox.providers.resource import DEFAULTS, Problem

Inputs = dict[str, Any]

NAME = r"[0-9A-Za-z()./_\-]+"
MIN_NAME_LENGTH = 3
MAX_NAME_LENGTHS = {"name": 125, "namePrefix": 99}
HOPS = (1, 64)
# The limits of each volume type: sizes in GiB, then IOPS (EC2 schema, Ebs.VolumeSize and Ebs.Iops).
SIZES = {
    "gp2": (1, 16384), "gp3": (1, 65536), "io1": (4, 16384), "io2": (4, 65536), "st1": (125, 16384),
    "sc1": (125, 16384), "standard": (1, 1024),
}  # fmt: skip
IOPS = {"gp3": (3000, 80000), "io1": (100, 64000), "io2": (100, 256000)}
THROUGHPUT = (125, 2000)
INITIALIZATION = (100, 300)
# docs.aws.amazon.com/ebs/latest/userguide/general-purpose.html and provisioned-iops.html.
IOPS_PER_GIB = {"gp3": 500, "io1": 50, "io2": 1000}
THROUGHPUT_PER_IOPS = 0.25
BASELINE = {"iops": 3000, "throughput": 125}
# EC2 schema, TagSpecification.ResourceType.
TAGGED = ("instance", "volume", "network-interface", "spot-instances-request")
# botocore, ec2 2016-11-15, LaunchTemplateInstanceNetworkInterfaceSpecificationRequest.InterfaceType.
INTERFACES = ("interface", "efa", "efa-only")
# Strings that must be true or false (terraform-provider-aws, internal/experimental/nullable: TypeNullableBool).
BOOLEAN_STRINGS = {
    "blockDeviceMappings": ("ebs.deleteOnTermination", "ebs.encrypted"),
    "networkInterfaces": (
        "associateCarrierIpAddress", "associatePublicIpAddress", "deleteOnTermination", "primaryIpv6",
    ),
}  # fmt: skip


def launch_template(inputs: Inputs, region: str) -> Iterator[Problem]:
    """Check one launch template. Rules of a node group for its template are in eks/node_group_template.py."""
    yield from names(inputs)
    yield from boolean_strings(inputs)
    yield from exclusions(inputs)
    for index, row in enumerate(rows(inputs.get("blockDeviceMappings"))):
        yield from volume(table(table(row).get("ebs")), f"blockDeviceMappings[{index}].ebs")
    hops = table(inputs.get("metadataOptions")).get("httpPutResponseHopLimit")
    yield from _range(hops, HOPS, "metadataOptions.httpPutResponseHopLimit")  # upstream
    for index, row in enumerate(rows(inputs.get("tagSpecifications"))):
        kind = table(row).get("resourceType")
        if isinstance(kind, str) and kind not in TAGGED:
            path = f"tagSpecifications[{index}].resourceType"
            yield Problem(path, f"expected one of {', '.join(TAGGED)} in a launch template, got {kind}")
    yield from market(inputs)
    yield from machine(inputs.get("instanceType"), region)
    yield from interfaces(inputs.get("networkInterfaces"), inputs.get("instanceType"))


def names(inputs: Inputs) -> Iterator[Problem]:
    """Check the name, as in terraform-provider-aws, internal/verify/validate.go, ValidLaunchTemplateName."""
    for key, max_length in MAX_NAME_LENGTHS.items():
        name = inputs.get(key)
        if not isinstance(name, str):
            continue
        if len(name) < MIN_NAME_LENGTH:
            yield Problem(key, f'"{key}" cannot be less than {MIN_NAME_LENGTH} characters')
        elif len(name) > max_length:
            limit_note = f", name is limited to {MAX_NAME_LENGTHS['name']}" if key != "name" else ""
            yield Problem(key, f'"{key}" cannot be longer than {max_length} characters{limit_note}')
        elif not re.fullmatch(NAME, name):
            yield Problem(key, f'"{key}" can only alphanumeric characters and ()./_- symbols')


def boolean_strings(inputs: Inputs) -> Iterator[Problem]:
    values = [("ebsOptimized", inputs.get("ebsOptimized"))]
    for collection, paths in BOOLEAN_STRINGS.items():
        for index, row in enumerate(rows(inputs.get(collection))):
            for path in paths:
                value: Any = row
                for step in path.split("."):
                    value = table(value).get(step)
                values.append((f"{collection}[{index}].{path}", value))
    for path, value in values:
        if isinstance(value, str) and value not in ("", "true", "false"):
            name = path.rpartition(".")[2]
            yield Problem(path, f"expected {name} to be one of '', 'true', or 'false', got '{value}'")


def exclusions(inputs: Inputs) -> Iterator[Problem]:
    """Check mutually exclusive inputs (upstream: ConflictsWith)."""
    for one, other in (
        ("instanceRequirements", "instanceType"),
        ("securityGroupNames", "vpcSecurityGroupIds"),
        ("defaultVersion", "updateDefaultVersion"),
    ):
        if inputs.get(one) and inputs.get(other):
            yield Problem(one, f'"{one}": conflicts with {other}')
    if is_known(inputs.get("namePrefix")) and is_known(inputs.get("name")) and "name" not in rows(inputs.get(DEFAULTS)):
        yield Problem("name", '"name": conflicts with namePrefix')
    target = table(table(inputs.get("capacityReservationSpecification")).get("capacityReservationTarget"))
    if target.get("capacityReservationId") and target.get("capacityReservationResourceGroupArn"):
        path = "capacityReservationSpecification.capacityReservationTarget.capacityReservationId"
        yield Problem(path, '"capacityReservationId": conflicts with capacityReservationResourceGroupArn')


def volume(ebs: Inputs, path: str) -> Iterator[Problem]:
    kind, size, iops, speed = (ebs.get(name) for name in ("volumeType", "volumeSize", "iops", "throughput"))
    yield from _range(ebs.get("volumeInitializationRate"), INITIALIZATION, f"{path}.volumeInitializationRate")
    yield from _range(speed, THROUGHPUT, f"{path}.throughput")
    if not isinstance(kind, str) or kind not in SIZES:
        return
    yield from _range(size, SIZES[kind], f"{path}.volumeSize")
    if kind in IOPS:
        yield from _range(iops, IOPS[kind], f"{path}.iops")
    elif iops is not None:
        # https://github.com/kubernetes-retired/kube-aws/issues/1208
        yield Problem(f"{path}.iops", f"The parameter iops is not supported for {kind} volumes.")
    if iops is None and kind in ("io1", "io2"):
        # https://github.com/velero-io/velero-plugin-for-aws/pull/119
        yield Problem(f"{path}.iops", f"The parameter iops must be specified for {kind} volumes.")
    if speed is not None and kind != "gp3":
        # https://github.com/runs-on/runs-on/issues/426
        yield Problem(f"{path}.throughput", "throughput can only be specified for volumeType gp3.")
    yield from ratios(kind, size, iops, speed, path)


def ratios(kind: str, size: Any, iops: Any, speed: Any, path: str) -> Iterator[Problem]:
    if isinstance(iops, int | float) and isinstance(size, int | float) and size and kind in IOPS_PER_GIB:
        most = IOPS_PER_GIB[kind]
        # Every gp3 volume has the baseline IOPS, whatever its size.
        if iops / size > most and not (kind == "gp3" and iops <= BASELINE["iops"]):
            # https://github.com/rocicorp/mono/pull/4410
            text = f"Iops to volume size ratio of {iops / size:f} is too high; maximum is {most}"
            yield Problem(f"{path}.iops", text)
    if kind == "gp3" and isinstance(speed, int | float) and (iops is None or isinstance(iops, int | float)):
        ratio = speed / (iops or BASELINE["iops"])
        if ratio > THROUGHPUT_PER_IOPS:
            # https://github.com/runs-on/runs-on/issues/260
            text = (
                f"Throughput (MiBps) to iops ratio of {ratio:f} is too high; maximum is "
                f"{THROUGHPUT_PER_IOPS:f} MiBps per iops"
            )
            needed = int(-(-speed // THROUGHPUT_PER_IOPS))
            yield Problem(f"{path}.throughput", text, f"{speed:g} MiB/s need iops of {needed} or more")


def market(inputs: Inputs) -> Iterator[Problem]:
    options = table(inputs.get("instanceMarketOptions"))
    kind, name = options.get("marketType"), inputs.get("instanceType")
    if isinstance(kind, str) and kind != "spot" and options.get("spotOptions"):
        text = f"must be left out when marketType is {kind}"
        yield Problem("instanceMarketOptions.spotOptions", text)
    api_names = {"spot": "SPOT", "capacity-block": "CAPACITY_BLOCK", "on-demand": "ON_DEMAND"}
    if isinstance(name, str) and kind in api_names:
        yield from instance_types.check_market(name, api_names[kind], "instanceType")


def machine(name: Any, region: str) -> Iterator[Problem]:
    if isinstance(name, str) and name and not instance_types.is_offered_in(name, region):
        # https://github.com/terraform-aws-modules/terraform-aws-eks/issues/3648
        yield Problem(
            "instanceType",
            f"The specified instance type {name} is not valid",
            instance_types.availability_hint(name, region),
        )


def interfaces(given: Any, name: Any) -> Iterator[Problem]:
    """Check the network interfaces and the number of EFAs.

    Sources: docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-acc-inst-types.html; gpu_catalog for the EFAs of a machine.
    """
    interface_rows = [table(row) for row in rows(given)]
    positions = [(one.get("networkCardIndex") or 0, one.get("deviceIndex") or 0) for one in interface_rows]
    for position, count in Counter(positions).items():
        if count > 1 and all(isinstance(one, int | float) for one in position):
            card, device = position
            text = f"{count} interfaces on network card {card:g}, device {device:g}: each must have its own place"
            yield Problem("networkInterfaces", text)
    if (
        interface_rows
        and (0, 0) not in positions
        and all(isinstance(one, int | float) for position in positions for one in position)
    ):
        yield Problem("networkInterfaces", "one interface must be the primary: network card 0, device 0")
    efas = 0
    for index, (one, position) in enumerate(zip(interface_rows, positions, strict=True)):
        kind, path = one.get("interfaceType"), f"networkInterfaces[{index}].interfaceType"
        if isinstance(kind, str) and kind not in INTERFACES:
            listed = " ".join(f'"{each}"' for each in INTERFACES)
            yield Problem(path, f"expected interfaceType to be one of [{listed}], got {kind}")
        if kind == "efa-only" and position == (0, 0):
            yield Problem(path, "You can't use an EFA-only network interface as the primary network interface.")
        efas += kind in ("efa", "efa-only")
    offer = instance_types.offer(name) if isinstance(name, str) else None
    if offer and efas > offer.efa_interfaces and "efa_interfaces" not in offer.uncertain:
        text = f"{name} has {offer.efa_interfaces or 'no'} EFA interfaces, got {efas}"
        yield Problem("networkInterfaces", text)


def _range(given: Any, bounds: tuple[int, int], path: str) -> Iterator[Problem]:
    if isinstance(given, int | float) and not bounds[0] <= given <= bounds[1]:
        name = path.rpartition(".")[2]
        yield Problem(path, f"expected {name} to be in the range ({bounds[0]} - {bounds[1]}), got {given:g}")
