"""The queues that are measured against each other, one a file."""
