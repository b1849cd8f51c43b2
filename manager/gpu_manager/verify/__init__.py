"""The checklist of a runner manager: what must be true before its first job."""
