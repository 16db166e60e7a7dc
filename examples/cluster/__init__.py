"""The production shape as plain processes on one machine: ``make cluster``; not part of the package."""
