"""What is kept: whole files or none, folders in object storage with their local mirrors, budgets on disk."""
