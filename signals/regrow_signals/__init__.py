"""The lowest room: what is in Redis, and how it is reached.

Here live key names, the connection policy, Lua scripts with their typed callers, signals and mailboxes, and the two
clients over them. Nothing here knows handlers, processes or supervisors, and nothing reads the environment.
"""
