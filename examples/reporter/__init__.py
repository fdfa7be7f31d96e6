"""A cron reporter: a till that sells every second, and a report each night in the time of Berlin."""
