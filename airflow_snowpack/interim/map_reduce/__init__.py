"""Map and reduce the rows of a table with Python functions, on Spark."""
