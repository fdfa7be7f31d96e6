"""Fan-out and join: a hundred effects at once, plain and async, and one answer made of their results."""
