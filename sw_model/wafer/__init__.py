"""A wafer of 20 NPUs: the mesh, and the fat tree of FRED switches (FRED, ISCA 2025, evaluation)."""
