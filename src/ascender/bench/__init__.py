"""Benchmarks behind `ascender bench`. Nothing in the package imports this."""
