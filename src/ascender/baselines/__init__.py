"""What ASCender is compared with: attention objects for the same slot."""
