#!/usr/bin/env bash
# open_pull_request.sh BRANCH TITLE REPORT: commits the changed files of a checkout to a branch, and opens a pull request
# with the report as its text. An open pull request of the branch is updated. Without a change, nothing happens.
# GH_TOKEN is a token that may push the branch and open pull requests. It is passed to git by a helper, not as an argument.
set -euo pipefail
branch=$1 title=$2 report=$3

if git diff --quiet; then exit 0; fi
git config user.name "github-actions[bot]"
git config user.email "41898282+github-actions[bot]@users.noreply.github.com"
git switch --create "$branch"
git commit --quiet --all --message "$title"
# shellcheck disable=SC2016 # the helper expands GH_TOKEN, so that the arguments of git do not contain it
helper='!f() { echo username=x-access-token; echo "password=$GH_TOKEN"; }; f'
git -c "credential.helper=$helper" push --force origin "$branch"
body=$(mktemp)
{ echo '```'; cat "$report"; echo '```'; } > "$body"
# --head also finds pull requests of forks with a branch of this name.
own='.[] | select(.isCrossRepository | not) | .number'
number=$(gh pr list --head "$branch" --state open --limit 1000 --json number,isCrossRepository --jq "$own")
if [ -z "$number" ]; then
  gh pr create --head "$branch" --title "$title" --body-file "$body"
else
  gh pr edit "$number" --body-file "$body"
fi
