"""GitHub Actions: workflow runs, jobs and runners, and the calls of the REST API about them."""
