"""``regrow bench``: how fast, measured on this machine: recovery, throughput, latency. Not imported by anything else.

Each measurement starts a system of its own (embedded Redis, watchdog, one node) in a throw-away folder, and ends it.
"""
