"""A language model with tools: one agent for each chat, which outlives every process that worked for it."""
