"""``regrow chaos``: regrow's own processes are killed and stopped at random, and Redis says what came of it."""
