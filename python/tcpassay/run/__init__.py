"""Running a plan: worker processes, result folder, checks, terminal output."""
