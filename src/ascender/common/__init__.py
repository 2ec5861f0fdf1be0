"""Helpers of every package: argument checks, files, user code by name."""
