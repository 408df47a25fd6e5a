"""Running a plan: the pool, the result folder, checks, what a person sees."""
