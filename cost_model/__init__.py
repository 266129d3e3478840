"""Models that rank schedules before they are built. Knows nothing of GPUs at hand or of logs."""
