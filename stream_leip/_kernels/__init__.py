"""Numba kernels, by subject. Plain arrays in and out; checks and errors live with their callers."""
