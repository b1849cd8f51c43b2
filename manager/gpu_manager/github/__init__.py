"""GitHub over its REST API: the queue of jobs, the runners, and reruns."""
