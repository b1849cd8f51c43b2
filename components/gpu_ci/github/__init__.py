"""Components for GitHub."""
