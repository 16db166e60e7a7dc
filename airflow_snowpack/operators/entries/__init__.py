"""Operators that run entries: a Python function or a command, in a process, a container or a pod."""
