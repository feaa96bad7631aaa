"""The FRED switch: micro-switches, the interconnect built from them, and the switch around it.

Source: Rashidi, Won, Srinivasan, Gupta, Krishna, *FRED: A Wafer-scale Fabric for 3D Parallel DNN
Training*, ISCA 2025; what the paper leaves open is decided here (docs/fred.md).
"""
