"""Components for GitHub: runner groups, branch rules, secrets and variables."""
