"""What is told in advance: run times, start times, sizes."""
