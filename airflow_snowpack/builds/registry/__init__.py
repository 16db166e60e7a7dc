"""The build registry: datasets, runs, publications and dataset locks in the store."""
