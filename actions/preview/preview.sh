#!/usr/bin/env bash
# Calls `gpu-ci preview` with the inputs of the action, which are in the environment, and says what came of it.
set -euo pipefail

gpu_ci=$GITHUB_ACTION_PATH/../../.venv/bin
report=${OUTPUT:-$RUNNER_TEMP/gpu-ci-preview}
base=${BASE:-${GITHUB_BASE_REF:+origin/$GITHUB_BASE_REF}}
# GITHUB_BASE_REF is of pull requests alone; a merge queue names its branch as refs/heads/main.
branch=${MERGE_GROUP_BASE#refs/heads/}
base=${base:-${branch:+origin/$branch}}

words=("--base=$base" "--head=${HEAD:-HEAD}" "--output=$report" --annotate)
one() { # an option with its value, where there is one
  if [[ -n $2 ]]; then words+=("$1=$2"); fi
}
lines() { # an option with each of its values, which are lines
  local value
  while IFS= read -r value; do
    value=$(sed 's/^[[:space:]]*//; s/[[:space:]]*$//' <<<"$value")
    one "$1" "$value"
  done <<<"$2"
}
flag() { # an option without a value
  case $2 in
    true) words+=("$1") ;;
    false | '') ;;
    *) printf '::error::%s is neither true nor false\n' "${1#--}" && exit 1 ;;
  esac
}
lines --stack "$STACKS"
lines --policy-pack "$POLICY_PACKS"
lines --policy-pack-config "$POLICY_PACK_CONFIG"
lines --against-state "$AGAINST_STATE"
flag --with-network "$WITH_NETWORK"
flag --exact-base "$EXACT_BASE"
flag --require-walls "$REQUIRE_WALLS"
one --install "$INSTALL"
one --cache "$CACHE"
one --max-usd-month "$MAX_USD_MONTH"
one --timeout-sec "$TIMEOUT_SEC"
one --memory-gib "$MEMORY_GIB"
one --disk-gib "$DISK_GIB"

# A report of an earlier call would be taken for this one's.
rm -f "$report/report.json"
code=0
"$gpu_ci/gpu-ci" preview "${words[@]}" || code=$?
# Whatever it ended with: without a report nothing is known.
[[ -f $report/report.json ]] || code=1

told=$("$gpu_ci/python" -I -c '
import json, pathlib, sys
file = pathlib.Path(sys.argv[1], "report.json")
stacks = json.loads(file.read_text())["stacks"] if file.is_file() else None
kinds = ("create", "update", "replace", "delete", "moved")
if stacks is not None:
    changed = [
        each for each in stacks
        if any(each["counts"][kind] for kind in kinds) or each["outputs"] or each["status"] == "removed"
    ]
    dangers = sum(found["severity"] == "danger" for each in stacks for found in each["findings"])
    print(str(bool(changed)).lower(), dangers)
' "$report")
read -r changed dangers <<<"$told"
{
  printf 'exit-code=%s\n' "$code"
  printf 'changed=%s\n' "$changed"
  printf 'dangers=%s\n' "$dangers"
  printf 'report=%s\n' "$report"
} >>"$GITHUB_OUTPUT"

read -ra failing <<<"$FAIL_ON"
for each in "${failing[@]}"; do
  if [[ $code == "$each" ]]; then exit "$code"; fi
done
