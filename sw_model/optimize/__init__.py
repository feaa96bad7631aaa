"""LIBRA: the bandwidth of every dim that trains fastest, or at the best time x cost."""
