"""The platform at transaction level: executes plans with the timing of the RTL."""
