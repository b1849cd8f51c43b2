"""Shared code of the packages in this wheel that no library has. It needs the standard library only."""
