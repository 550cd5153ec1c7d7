"""Every numba kernel of the connectors, by subject; nothing else."""
