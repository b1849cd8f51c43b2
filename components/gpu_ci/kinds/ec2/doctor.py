"""The steps of `gpu-ci doctor` for pools on EC2: account, image, quotas and subnets, in each region of the pools."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ...cli.doctor import eks
from ...cli.doctor.deployment import Deployment
from ...cli.doctor.steps import Finding, Status, Step, problems_or_pass
from .args import Ec2RunnerPoolArgs


class Region(eks.Cluster):
    """A region with pools on EC2. The steps about an EKS cluster that only ask AWS also work for it."""


def _regions(deployment: Deployment) -> Iterator[Region]:
    """Yield each region with a pool or a rung of a ladder. Its pools are those whose own region it is."""
    pools = {name: args for name, args in deployment.file.pools if isinstance(args, Ec2RunnerPoolArgs)}
    rungs = [rung for args in pools.values() for rung in args.rungs]
    for region in dict.fromkeys(rung.region for rung in rungs):
        subnets = dict.fromkeys(
            str(rung.subnets[zone]) for rung in rungs if rung.region == region for zone in rung.zones
        )
        own = {name: args for name, args in pools.items() if args.region == region}
        yield Region("", region, tuple(subnets), own)


def _in_each_region(ask: Callable[[Region], Finding]) -> Callable[[Deployment], Finding]:
    """Return a step that asks in each region, and reports the regions with the worst status together."""

    def asked(deployment: Deployment) -> Finding:
        found = {region.region: ask(region) for region in _regions(deployment)}
        reported = {each.status for each in found.values()}
        status: Status = "fail" if "fail" in reported else "unknown" if "unknown" in reported else "pass"
        worst = {name: each for name, each in found.items() if each.status == status}
        text = "; ".join(f"{name}: {each.got}" for name, each in worst.items())
        fix = tuple(line for each in worst.values() for line in each.fix)
        return Finding(status, text, {name: each.details for name, each in found.items()}, fix)

    return asked


def _images(region: Region) -> Finding:
    names = dict.fromkeys(args.chosen_image for args in region.pools.values())
    answers = {}
    problems, fix = [], []
    for name in names:
        image = name
        if name.startswith("/"):
            image = region.aws("ssm", "get_parameter", Name=name)["Parameter"]["Value"]
        [answer] = region.aws("ec2", "describe_images", ImageIds=[image])["Images"] or [{}]
        answers[name] = {key: answer.get(key) for key in ("ImageId", "Name", "State", "RootDeviceName", "Architecture")}
        if answer.get("RootDeviceName") != "/dev/sda1":
            problems.append(f"{image} has the root device {answer.get('RootDeviceName')}, so diskGib has no effect")
            fix.append(f"aws ec2 describe-images {region.place} --image-ids {image}")
    good = ", ".join(str(each["Name"]) for each in answers.values()) or "no pool of its own"
    return problems_or_pass(problems, good, answers, fix=fix)


STEPS: tuple[Step[Deployment], ...] = (
    Step("account", "the credentials are of the account of the pools", _in_each_region(eks.identity)),
    Step(
        "images", "the image of each pool exists, and its root device is /dev/sda1", _in_each_region(_images),
        "use an image with Ubuntu, such as the default",
    ),
    Step("quotas", "limits cover every machine at `max`", _in_each_region(eks.quotas_suffice)),
    Step(
        "subnets", "a default route to a NAT gateway, to reach github.com", _in_each_region(eks.subnets_reach_internet)
    ),
)  # fmt: skip
