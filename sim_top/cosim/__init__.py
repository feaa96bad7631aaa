"""Co-simulation: the training loop, or single collectives, drive the RTL platform."""
