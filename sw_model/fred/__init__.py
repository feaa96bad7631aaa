"""FRED: construction, routing, reduction order and timing of the switch (3-fred of the design).

Source: Rashidi, Won, Srinivasan, Gupta, Krishna, *FRED: A Wafer-scale Fabric for 3D Parallel DNN
Training*, ISCA 2025.
"""
