"""What an exercise is, and where the exercises are found."""
