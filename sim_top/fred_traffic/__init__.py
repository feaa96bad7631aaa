"""A FRED switch on its own under full load, and the figures that it reaches."""
