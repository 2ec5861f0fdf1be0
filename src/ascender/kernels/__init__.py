"""Native kernels for the CPU: plain C, compiled on first use, as torch operators."""
