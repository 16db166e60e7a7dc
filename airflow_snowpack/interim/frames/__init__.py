"""Rows as interim tables and back: Spark DataFrames, Arrow, pandas, Polars, DuckDB and Ibis."""
