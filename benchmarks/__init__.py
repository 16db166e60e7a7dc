"""Measures the package beside what a user would pick instead: `make bench`, or `python -m benchmarks [part …]`."""
