"""Effects: registered functions that touch the world after a commit, executed by RQ under claim and settle."""
