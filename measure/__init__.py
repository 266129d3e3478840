"""Building, checking and timing programs, and the log of what came of it. Never sees a schedule's meaning."""
