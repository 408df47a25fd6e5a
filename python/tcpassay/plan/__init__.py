"""Plans: the parameter table, plan files, constraints between parameters."""
