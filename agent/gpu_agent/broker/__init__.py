"""Registration of the runner by the runner manager, encrypted for a key of this machine."""
