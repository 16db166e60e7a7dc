"""The tables of release 0.1, one module for each part of the domain.

A later release adds a migration under ``versions/``; nothing here changes any more.
"""
