"""Agents and the processes that run them: the pure transition first, the shells around it after.

Here live ``Agent``, ``State``, handlers, directives, effects, the batch planner, and the loops of node, spawner and
worker. What decides is a pure function; only the loops touch Redis. Nothing here may import a supervisor or the public
package.
"""
