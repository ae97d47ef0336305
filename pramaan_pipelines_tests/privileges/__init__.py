"""What each process may do, in AWS and in the database: as much as it needs and nothing else."""
