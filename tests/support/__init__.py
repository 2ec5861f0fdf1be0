"""What the tests share: cases, laws, oracles, worked vectors."""
