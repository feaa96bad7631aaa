"""FRED: construction, routing, reduction order and timing of the switch (docs/fred.md).

Source: Rashidi, Won, Srinivasan, Gupta, Krishna, *FRED: A Wafer-scale Fabric for 3D Parallel DNN
Training*, ISCA 2025.
"""
