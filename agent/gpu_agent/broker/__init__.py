"""The registration of the runner by the runner manager, sealed to a key of this machine."""
