"""The peers' applications. Run in an environment of their own, where their libraries are (benchmarks/peers.py)."""
