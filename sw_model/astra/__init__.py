"""What people bring from ASTRA-sim, read unchanged, and that program's own cost semantics."""
