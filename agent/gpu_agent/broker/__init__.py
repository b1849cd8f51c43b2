"""The registration of the runner by the runner manager, which encrypts it for a key of this machine."""
