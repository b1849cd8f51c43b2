"""The checklist of a runner manager: conditions that must hold before its first job."""
