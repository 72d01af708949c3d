"""What a kernel has to compute: references, input makers, and where they are found."""
