"""The tables and DAGs that triggers listen to: reading them, what is wrong with them, and what has been considered of them."""
