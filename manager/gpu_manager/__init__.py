"""The runner manager: it starts a machine for each queued job and deletes the machine after the job."""
