"""Building, checking and timing programs, and the log. Never sees a schedule's meaning."""
