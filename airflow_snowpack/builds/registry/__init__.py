"""The build registry: datasets, runs and publications in the store, and the lock of each dataset."""
