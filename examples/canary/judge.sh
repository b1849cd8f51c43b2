#!/usr/bin/env bash
# Waits for the verdict of one step: exits with 0 to advance and with 2 to roll back. A hold, a mistake in the counts and an
# error of the metrics server are asked again after a minute, so they never roll back. The timeout of the caller ends it.
set -u
minutes=$(mktemp)
since=$(date -u +%Y-%m-%dT%H:%M:00Z)
while true; do
  if python "$(dirname "$0")/counts.py" "$PROMETHEUS" \
    --canary "$CANARY" --stable "$STABLE" --errors "$ERRORS" ${TOKEN_FILE:+--token-file "$TOKEN_FILE"} > "$minutes"; then
    gpu-ci deploy judge "$minutes" --since "$since" --step-minutes "${STEP_MINUTES:-10}"
    code=$?
    case $code in 0 | 2) exit "$code" ;; esac
  fi
  sleep "${WAIT_SEC:-60}"
done
