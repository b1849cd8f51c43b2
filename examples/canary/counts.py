"""Prints the counts of requests by minute for `gpu-ci deploy judge`, from a Prometheus HTTP API.

    python counts.py http://prometheus:9090 \\
      --canary 'http_requests_total{version="v2"}' --stable 'http_requests_total{version="v1"}' --errors 'code=~"5.."'

A minute without a sample of a model is printed without this model. The newest minutes are left out: they are not
complete yet. The exit code is 1 for each error. Only the standard library is used.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import urllib.error
import urllib.parse
import urllib.request


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url", help="the address without /api/v1")
    parser.add_argument("--canary", required=True, metavar="SELECTOR", help="the counter of requests of the canary")
    parser.add_argument("--stable", required=True, metavar="SELECTOR", help="the same of the stable model")
    parser.add_argument("--errors", required=True, metavar="MATCHER", help="the matcher of errors, such as code=~'5..'")
    parser.add_argument("--hours", type=float, default=6, help="the time before now; longer than the rollout")
    parser.add_argument("--late-minutes", type=int, default=2, help="the newest minutes to leave out")
    parser.add_argument("--token-file", help="a file with a bearer token")
    args = parser.parse_args()
    end = int(time.time()) // 60 * 60 - args.late_minutes * 60
    times = {"start": end - int(args.hours * 60) * 60, "end": end, "step": 60}
    minutes: dict[int, dict[str, dict[str, float]]] = {}
    try:
        for model, selector in (("canary", args.canary), ("stable", args.stable)):
            requests = query(args, selector, times)
            errors = query(args, f"{selector.removesuffix('}')},{args.errors}}}", times)
            for second, number in requests.items():
                failed = min(errors.get(second, 0.0), number)  # without an error, the series does not exist
                # increase() at a time counts the minute before it.
                minutes.setdefault(second - 60, {})[model] = {"requests": number, "errors": failed}
    except (OSError, ValueError, KeyError) as error:
        print(f"counts.py: {args.url}: {error}", file=sys.stderr)
        return 1
    for minute in sorted(minutes):
        print(json.dumps({"minute": minute, **minutes[minute]}))
    return 0


def query(args: argparse.Namespace, selector: str, times: dict[str, int]) -> dict[int, float]:
    """Return the increase of a counter in each minute, by the time at which the minute ends."""
    text = urllib.parse.urlencode({"query": f"sum(increase({selector}[1m]))", **times})
    headers = {}
    if args.token_file:
        with open(args.token_file, encoding="utf-8") as file:  # noqa: PTH123
            headers["Authorization"] = f"Bearer {file.read().strip()}"
    request = urllib.request.Request(f"{args.url}/api/v1/query_range?{text}", headers=headers)  # noqa: S310
    with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310
        result = json.load(answer)["data"]["result"]
    if len(result) > 1:
        raise ValueError(f"{selector} has {len(result)} series")
    return {int(second): float(number) for second, number in (result[0]["values"] if result else [])}


if __name__ == "__main__":
    try:
        code = main()
    except SystemExit as error:  # argparse exits with 2, which is the code of a rollback
        code = 1 if error.code else 0
    sys.exit(code)
