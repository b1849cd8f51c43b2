"""VMs of the sandbox: their startup scripts run as local processes, with a metadata server and other local services."""
