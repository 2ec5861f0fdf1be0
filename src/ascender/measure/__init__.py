"""FLOPs, memory and time of a call."""
