"""A crawler with a rate limit: breadth first to a depth, robots.txt heeded, however many processes fetch or die."""
