"""What is owed is framed: healing, the reports of an agent, and re-execution."""
