#!/usr/bin/env bash
# Calls `gpu-ci preview` with the inputs of the action, which are environment variables, and sets the outputs.
set -euo pipefail

gpu_ci=$GITHUB_ACTION_PATH/../../../.venv/bin
report=${OUTPUT:-$RUNNER_TEMP/gpu-ci-preview}
base=${BASE:-${GITHUB_BASE_REF:+origin/$GITHUB_BASE_REF}}
# GITHUB_BASE_REF is set only for pull requests. For a merge queue, MERGE_GROUP_BASE is such as refs/heads/main.
branch=${MERGE_GROUP_BASE#refs/heads/}
base=${base:-${branch:+origin/$branch}}

arguments=("--base=$base" "--head=${HEAD:-HEAD}" "--output=$report" --annotate)
one() { # add an option with its value, unless the value is empty
  if [[ -n $2 ]]; then arguments+=("$1=$2"); fi
}
lines() { # add an option for each line of its value
  local value
  while IFS= read -r value; do
    value=$(sed 's/^[[:space:]]*//; s/[[:space:]]*$//' <<<"$value")
    one "$1" "$value"
  done <<<"$2"
}
flag() { # add an option without a value, if the input is true
  case $2 in
    true) arguments+=("$1") ;;
    false | '') ;;
    *) printf '::error::%s is neither true nor false\n' "${1#--}" && exit 1 ;;
  esac
}
lines --stack "$STACKS"
lines --policy-pack "$POLICY_PACKS"
lines --policy-pack-config "$POLICY_PACK_CONFIG"
flag --with-network "$WITH_NETWORK"
flag --exact-base "$EXACT_BASE"
flag --require-walls "$REQUIRE_WALLS"
one --install "$INSTALL"
one --max-usd-month "$MAX_USD_MONTH"
one --timeout-sec "$TIMEOUT_SEC"
one --memory-gib "$MEMORY_GIB"
one --disk-gib "$DISK_GIB"

# Otherwise, the report of an earlier call could be read as the report of this call.
rm -f "$report/report.json"
code=0
"$gpu_ci/gpu-ci" preview "${arguments[@]}" || code=$?
# Without a report, nothing is known about the change, so this is an error.
[[ -f $report/report.json ]] || code=1

summary=$("$gpu_ci/python" -I -c '
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
read -r changed dangers <<<"$summary"
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
