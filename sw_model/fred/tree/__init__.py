"""FRED switches joined to a tree, at packet level, for the deadlock argument (docs/fred.md)."""
