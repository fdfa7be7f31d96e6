"""Example applications. They import from ``regrow`` alone, as a user's code does."""
