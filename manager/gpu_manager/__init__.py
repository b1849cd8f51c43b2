"""The runner manager: a queued job gets a machine with a proven GPU, and the machine goes when the job ends."""
