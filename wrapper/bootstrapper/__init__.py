"""Bring the right upstream commit and the right environment onto this machine."""
